"""An unused start on a host is given back, and no two used starts come closer together because of it."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise, permutations
from random import Random

from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Done, Fate, Lease, Outcome, Release, Retry, Run, Task
from shoal.core.urls import host_of
from shoal.queue.contract import Queue
from shoal.worker.claims import CLOCK_SAMPLES
from tests.conformance.backends import Bench, Clock, ServerClock, VirtualClock, lasting
from tests.conformance.helpers import (
    HOST,
    HOUR,
    ME,
    TEN,
    claim,
    claim_all,
    claim_one,
    page,
    pages,
    start,
)

GAP = timedelta(milliseconds=200)
TOLERANCE = timedelta(milliseconds=1)  # for stores that count in milliseconds or floats

UNASKED: dict[str, Callable[[Lease], Outcome]] = {
    "done": lambda lease: Done(lease, asked=False),
    "retry": lambda lease: Retry(lease, "it failed as it was kept", after=HOUR, asked=False),
    "bury": lambda lease: Bury(lease, "robots.txt", asked=False),
    "release": lambda lease: Release(lease, after=HOUR, asked=False),
}


async def test_a_host_that_was_not_asked_may_be_asked_at_once(queue: Queue) -> None:
    run = await start(queue, *pages(5), host_delay=MINUTE)
    lease = await claim_one(queue, run)
    for ending in UNASKED.values():
        assert not await claim(queue, run)
        assert await queue.settle([ending(lease)]) == [Fate.ACCEPTED]
        again = await claim_one(queue, run)
        assert again.task_id != lease.task_id
        assert again.start_in == ZERO
        lease = again


async def test_a_host_that_was_asked_is_left_alone_as_ever(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(5), host_delay=MINUTE)
    for outcome in (Done, Release, lambda lease: Retry(lease, "x")):
        await queue.settle([outcome(await claim_one(queue, run))])
        assert not await claim(queue, run)
        await clock.forward(MINUTE)


async def test_after_the_unused_starts_the_gap_counts_from_the_last_that_was_used(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(6), host_delay=MINUTE)
    await queue.settle([Done(await claim_one(queue, run))])
    await clock.forward(MINUTE)
    for _ in range(3):
        await queue.settle([Done(await claim_one(queue, run), asked=False)])
        await clock.forward(TEN)
    await queue.settle([Done(await claim_one(queue, run))])
    await clock.forward(5 * TEN)
    assert not await claim(queue, run)
    await clock.forward(TEN)
    assert await claim(queue, run)


async def test_an_unused_start_behind_which_lies_a_used_one_changes_nothing(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(4), host_delay=MINUTE)
    unused = await claim_one(queue, run)
    await clock.forward(MINUTE)
    used = await claim_one(queue, run)
    await queue.settle([Done(unused, asked=False)])
    assert not await claim(queue, run)
    await queue.settle([Done(used)])
    assert not await claim(queue, run)
    await clock.forward(MINUTE)
    assert await claim(queue, run)


async def _burst(queue: Queue, *, asked: list[bool], order: list[int], at_once: bool) -> timedelta:
    """Settle four starts of one claim, some of which sent a request; return the time until the last one."""
    run = await start(queue, *pages(9), host_delay=GAP, per_host=9)
    leases = sorted(await claim(queue, run, limit=4), key=lambda lease: lease.start_in)
    assert len(leases) == 4
    outcomes: list[Outcome] = [Done(leases[n], asked=asked[n]) for n in order]
    for batch in [outcomes] if at_once else [[outcome] for outcome in outcomes]:
        assert set(await queue.settle(batch)) == {Fate.ACCEPTED}
    probe = await start(queue, page(), host_delay=HOUR)
    grant = await queue.claim(ME, run_id=probe.id)
    assert not grant.leases and grant.next_due is not None
    return grant.next_due - HOUR


LAST_USED = [
    ([True, True, True, True], 3),
    ([True, True, True, False], 2),
    ([True, True, False, False], 1),
    ([True, False, False, False], 0),
    ([True, False, True, False], 2),
    ([False, True, False, False], 1),
    ([False, False, False, True], 3),
]


async def test_the_last_start_that_was_used_counts_in_whatever_order_they_are_settled(
    queue: Queue, clock: Clock
) -> None:
    orders = Random(7).sample(list(permutations(range(4))), 2 * len(LAST_USED))
    for number, (order, (asked, last)) in enumerate(zip(orders, LAST_USED * 2, strict=True)):
        began = clock.now()
        free = await _burst(queue, asked=asked, order=list(order), at_once=number < len(LAST_USED))
        took = clock.now() - began
        assert last * GAP - took - TOLERANCE <= free <= last * GAP + TOLERANCE
        await clock.forward(2 * HOUR)


async def test_starts_that_were_all_unused_leave_the_host_as_if_it_had_never_been_asked(
    queue: Queue,
) -> None:
    run = await start(queue, *pages(9), host_delay=GAP, per_host=9)
    leases = await claim(queue, run, limit=4)
    for lease in (leases[2], leases[0], leases[3], leases[1]):
        await queue.settle([Done(lease, asked=False)])
    assert min(lease.start_in for lease in await claim(queue, run)) == ZERO


async def test_a_start_is_given_back_across_runs_and_the_longer_gap_holds(queue: Queue, clock: Clock) -> None:
    quick = await start(queue, *pages(3), host_delay=TEN)
    slow = await start(queue, *pages(3), host_delay=MINUTE)
    await queue.settle([Done(await claim_one(queue, slow))])
    await clock.forward(MINUTE)
    unused = await claim_one(queue, quick)
    assert not await claim(queue, slow)
    await queue.settle([Done(unused, asked=False)])
    assert await claim(queue, slow)
    await clock.forward(TEN)
    assert not await claim(queue, quick)


async def test_a_slowed_host_keeps_its_delay_from_the_last_start_that_was_used(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(5), host_delay=TEN)
    await queue.settle([Done(await claim_one(queue, run))])
    await clock.forward(TEN)
    await queue.settle([Done(await claim_one(queue, run), slow_host=MINUTE, asked=False)])
    assert not await claim(queue, run)
    await clock.forward(4 * TEN)
    assert not await claim(queue, run)
    await clock.forward(TEN)
    assert await claim(queue, run)


async def test_a_paused_host_stays_paused(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(5), host_delay=TEN)
    lease = await claim_one(queue, run)
    await queue.pause_host(HOST, MINUTE)
    await queue.settle([Done(lease, asked=False)])
    assert not await claim(queue, run)
    await clock.forward(MINUTE)
    assert await claim(queue, run)


async def test_a_late_settlement_gives_nothing_back(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(3), host_delay=HOUR)
    late = await claim_one(queue, run, lease=MINUTE)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert await queue.settle([Done(late, asked=False)]) == [Fate.STALE]
    assert not await claim(queue, run)


async def test_a_start_is_given_back_once(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(5), host_delay=MINUTE)
    await queue.settle([Done(await claim_one(queue, run))])
    await clock.forward(MINUTE)
    unused = await claim_one(queue, run)
    fates = await queue.settle([Done(unused, asked=False), Done(unused, asked=False)])
    assert fates == [Fate.ACCEPTED, Fate.STALE]
    assert await queue.settle([Done(unused, asked=False)]) == [Fate.STALE]
    await queue.settle([Done(await claim_one(queue, run))])
    assert not await claim(queue, run)


async def test_without_a_gap_an_unused_start_gives_no_one_else_room(queue: Queue, clock: Clock) -> None:
    free = await start(queue, *pages(3))
    polite = await start(queue, *pages(3), host_delay=MINUTE)
    asked, kept = (await claim_all(queue, free))[:2]
    await queue.settle([Done(kept, asked=False), Done(asked)])
    assert not await claim(queue, polite)
    await clock.forward(MINUTE)
    assert await claim(queue, polite)


@lasting
async def test_what_was_given_back_survives_a_restart(bench: Bench, clock: Clock) -> None:
    run = await start(bench.queue, *pages(5), host_delay=MINUTE)
    await bench.queue.settle([Done(await claim_one(bench.queue, run))])
    await clock.forward(MINUTE)
    lease = await claim_one(bench.queue, run)
    queue = await bench.restart()
    await clock.forward(MINUTE)  # a restarted server may delay everything for this long
    await queue.settle([Done(lease, asked=False)])
    assert await claim(queue, run)


class Hosts:
    """A host with random used and unused starts, in bursts, by two runs, settled in any order."""

    def __init__(self, queue: Queue, clock: Clock, runs: list[Run], seed: int) -> None:
        self.queue, self.clock, self.runs, self.random = queue, clock, runs, Random(seed)
        self.held: list[tuple[datetime, Lease]] = []
        self.asked: list[datetime] = []
        self.moved = ZERO  # a clock that cannot be moved does not report it

    async def go(self, turns: int) -> None:
        for _ in range(turns):
            run, limit = self.random.choice(self.runs), self.random.randint(1, 4)
            lead = self.random.choice([ZERO, GAP / 3, 3 * GAP])
            grant = await self.queue.claim(ME, run_id=run.id, limit=limit, lead=lead)
            assert all(lease.start_in >= lead for lease in grant.leases)
            now = (grant.claimed_at or self.clock.now()) + self.moved
            self.held += [(now + lease.start_in, lease) for lease in grant.leases]
            self.random.shuffle(self.held)
            await self._settle(self.random.randint(0, len(self.held)))
            await self._wait(self.random.choice([ZERO, ZERO, GAP, 2 * GAP, SECOND]))

    async def _wait(self, delta: timedelta) -> None:
        await self.clock.forward(delta)
        self.moved += delta if isinstance(self.clock, ServerClock) else ZERO

    async def _settle(self, count: int) -> None:
        outcomes: list[Outcome] = []
        for moment, lease in self.held[:count]:
            asked = self.random.random() < 0.4
            outcomes.append(Done(lease, asked=asked))
            self.asked += [moment] if asked else []
        del self.held[:count]
        await self.queue.settle(outcomes)


async def test_no_two_starts_that_were_used_come_closer_than_the_gap(queue: Queue, clock: Clock) -> None:
    runs = [await start(queue, *pages(120), host_delay=gap, per_host=5) for gap in (GAP, 2 * GAP)]
    hosts = Hosts(queue, clock, runs, seed=0)
    await hosts.go(60)
    starts = sorted(hosts.asked)
    assert len(starts) > 10
    assert all(later - earlier > GAP - 20 * TOLERANCE for earlier, later in pairwise(starts))


@lasting
async def test_a_grant_tells_the_stores_time_and_no_two_starts_come_closer_than_the_gap(bench: Bench) -> None:
    assert bench.open
    sites = [f"h{number}.example" for number in range(6)]
    tasks = [Task(url=f"http://{host}/{number}") for host in sites for number in range(5)]
    runs = [await start(bench.queue, *tasks, host_delay=gap, per_host=3) for gap in (GAP / 4, GAP / 2)]
    queues = [bench.queue, await bench.open()]
    starts: dict[str, list[datetime]] = {host: [] for host in sites}
    for queue in queues * CLOCK_SAMPLES:  # as a worker does, which learns the store's time from it
        await queue.claim(ME, run_id=runs[0].id, limit=1, partitions=[])

    async def work(queue: Queue, run: Run) -> None:
        while not (grant := await queue.claim(ME, run_id=run.id, limit=9)).drained:
            assert grant.claimed_at or not grant.leases
            for lease in grant.leases:
                assert grant.claimed_at and lease.task.url
                starts[host_of(lease.task.url)].append(grant.claimed_at + lease.start_in)
            await queue.settle([Done(lease) for lease in grant.leases])
            if isinstance(bench.clock, VirtualClock):
                await bench.clock.forward(GAP / 8)
            elif not grant.leases:
                await asyncio.sleep(0.01)

    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(work(queue, run) for queue in queues for run in runs))
    finally:
        await queues[1].close()
    for host, moments in starts.items():
        assert len(moments) == 10
        gaps = [later - earlier for earlier, later in pairwise(sorted(moments))]
        assert min(gaps) > GAP / 4 - 20 * TOLERANCE, f"{host} was asked too soon: {min(gaps)}"
