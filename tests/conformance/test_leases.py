"""A lease is lost when its deadline passes, and a later settle of its holder is stale."""

import asyncio

from shoal.core.model import MINUTE, Bury, Done, Fate, Release, Retry
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, every_store
from tests.conformance.helpers import (
    HOUR,
    TEN,
    claim,
    claim_all,
    claim_one,
    data_of,
    page,
    pages,
    start,
    start_one,
    the_dead,
)


@every_store
async def test_a_dead_workers_task_comes_back_and_its_late_settle_is_refused(
    queue: Queue, clock: Clock
) -> None:
    run, dead = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE)
    alive = await claim_one(queue, run, "worker-2")
    assert alive.task_id == dead.task_id
    before = await queue.stats(run.id)
    assert await queue.settle([Done(dead, items=["zombie"], follow=[page(9)])]) == [Fate.STALE]
    assert await queue.stats(run.id) == before
    assert await queue.settle([Done(alive, items=["alive"])]) == [Fate.ACCEPTED]
    assert await data_of(queue, run) == ["alive"]


async def test_a_dead_workers_late_failures_are_refused_while_the_next_one_holds_the_task(
    queue: Queue, clock: Clock
) -> None:
    run, dead = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE)
    alive = await claim_one(queue, run, "worker-2")
    before = await queue.stats(run.id)
    for late in (Retry(dead, "late"), Bury(dead, "late"), Release(dead)):
        assert await queue.settle([late]) == [Fate.STALE]
    assert await queue.stats(run.id) == before
    assert await queue.settle([Done(alive)]) == [Fate.ACCEPTED]


async def test_a_reclaimed_lease_is_stale_before_anyone_claims_the_task_again(
    queue: Queue, clock: Clock
) -> None:
    run, lease = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE)
    await queue.reclaim()
    assert await queue.settle([Done(lease)]) == [Fate.STALE]
    assert await queue.extend([lease]) == [Fate.STALE]
    assert (await queue.stats(run.id)).pending == 1


async def test_a_dead_workers_late_extend_is_refused_and_does_not_touch_the_lease_of_the_next_one(
    queue: Queue, clock: Clock
) -> None:
    run, dead = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE)
    alive = await claim_one(queue, run, "worker-2", lease=MINUTE)
    assert await queue.extend([dead], lease=HOUR) == [Fate.STALE]
    assert await queue.extend([dead, alive], lease=MINUTE) == [Fate.STALE, Fate.ACCEPTED]
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1


async def test_a_lease_is_not_reclaimed_before_its_deadline(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE - TEN)
    assert await queue.reclaim() == 0
    assert not await claim(queue, run)
    assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]


async def test_a_late_settle_counts_as_long_as_nobody_has_reclaimed_the_lease(
    queue: Queue, clock: Clock
) -> None:
    run, lease = await start_one(queue, lease=MINUTE)
    await clock.forward(HOUR)
    assert await queue.settle([Done(lease, items=["late"])]) == [Fate.ACCEPTED]
    assert await queue.reclaim() == 0
    assert await data_of(queue, run) == ["late"]


async def test_a_late_extend_counts_as_long_as_nobody_has_reclaimed_the_lease(
    queue: Queue, clock: Clock
) -> None:
    _, lease = await start_one(queue, lease=MINUTE)
    await clock.forward(HOUR)
    assert await queue.extend([lease], lease=MINUTE) == [Fate.ACCEPTED]
    assert await queue.reclaim() == 0


async def test_extend_moves_the_deadline_to_a_while_from_now(queue: Queue, clock: Clock) -> None:
    _, lease = await start_one(queue, lease=HOUR)
    await clock.forward(5 * TEN)
    assert await queue.extend([lease], lease=MINUTE) == [Fate.ACCEPTED]
    await clock.forward(5 * TEN)
    assert await queue.reclaim() == 0
    await clock.forward(TEN)
    assert await queue.reclaim() == 1


async def test_extend_answers_for_each_lease(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    a, b, c = await claim_all(queue, run)
    await queue.settle([Done(b)])
    assert await queue.extend([a, b, c]) == [Fate.ACCEPTED, Fate.STALE, Fate.ACCEPTED]
    assert await queue.extend([]) == []


async def test_a_lease_that_is_named_twice_is_extended_and_no_other_is(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(2))
    named, other = await claim_all(queue, run, lease=MINUTE)
    assert await queue.extend([named, named], lease=HOUR) == [Fate.ACCEPTED] * 2
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert await queue.settle([Done(named), Done(other)]) == [Fate.ACCEPTED, Fate.STALE]


async def test_reclaim_counts_what_it_took_back_over_all_runs(queue: Queue, clock: Clock) -> None:
    runs = [await start(queue, *pages(3)), await start(queue, *pages(2))]
    for run in runs:
        await claim_all(queue, run, lease=MINUTE)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 5
    assert await queue.reclaim() == 0
    assert [(await queue.stats(run.id)).pending for run in runs] == [3, 2]


async def test_promise_7_a_task_that_kills_its_worker_runs_out_of_attempts(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, page(), max_attempts=3)
    for attempt in (1, 2, 3):
        assert (await claim_one(queue, run, f"victim-{attempt}", lease=MINUTE)).attempt == attempt
        await clock.forward(MINUTE)
        assert await queue.reclaim() == 1
    stats = await queue.stats(run.id)
    assert (stats.dead, stats.remaining) == (1, 0)
    (dead,) = await the_dead(queue, run)
    assert (dead.error, dead.attempts) == ("lease lost", 3)
    history = [(attempt.attempt, attempt.worker_id, attempt.error) for attempt in dead.history]
    assert history == [(n, f"victim-{n}", "lease lost") for n in (1, 2, 3)]


async def test_leases_of_a_run_that_stands_still_are_reclaimed_too(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, lease=MINUTE)
    await queue.pause(run.id)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert await queue.settle([Done(lease)]) == [Fate.STALE]


async def test_promise_2_claims_at_the_same_time_never_hand_out_one_task_twice(queue: Queue) -> None:
    run = await start(queue, *(page(n, f"h{n % 9}.example") for n in range(200)))
    grants = await asyncio.gather(*(claim_all(queue, run, f"worker-{n}", limit=7) for n in range(8)))
    async with asyncio.timeout(30):
        # A claim passes over what others hold now, and an empty host queue is searched again a moment later.
        while (await queue.stats(run.id)).pending:
            grants.append(await claim_all(queue, run))
    ids = [lease.task_id for leases in grants for lease in leases]
    assert len(ids) == len(set(ids)) == 200


async def test_promise_5_claims_at_the_same_time_keep_the_limits_of_a_host(queue: Queue) -> None:
    run = await start(queue, *(page(n, f"h{n % 3}.example") for n in range(90)), per_host=2)
    grants = await asyncio.gather(*(claim(queue, run, f"worker-{n}") for n in range(8)))
    grants.append(await claim_all(queue, run))
    assert sum(map(len, grants)) == 6


async def test_claims_at_the_same_time_keep_the_gap_of_a_host(queue: Queue) -> None:
    runs = [await start(queue, *pages(30), host_delay=MINUTE) for _ in range(2)]
    grants = await asyncio.gather(*(claim(queue, runs[n % 2], f"worker-{n}") for n in range(8)))
    grants += [await claim(queue, run) for run in runs]
    assert sum(map(len, grants)) == 1


async def test_one_of_many_settles_at_the_same_time_is_accepted(queue: Queue) -> None:
    run, lease = await start_one(queue)
    settles = [queue.settle([Done(lease, items=[n], follow=[page(2)])]) for n in range(8)]
    fates = [fate for (fate,) in await asyncio.gather(*settles)]
    assert sorted(fate.name for fate in fates) == ["ACCEPTED"] + ["STALE"] * 7
    assert len(await data_of(queue, run)) == 1


async def test_promise_4_the_same_tasks_streamed_in_at_the_same_time_enter_once(queue: Queue) -> None:
    run = await start(queue)
    reports = await asyncio.gather(*(queue.enqueue(run.id, pages(500)[::step]) for step in (1, -1, 1, -1)))
    assert sum(report.added for report in reports) == 500
    assert sum(report.duplicate for report in reports) == 1500
    assert (await queue.stats(run.id)).pending == 500


async def test_promise_1_a_task_is_in_exactly_one_state_after_every_step(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1), page(2, delay=MINUTE), page(3, ttl=MINUTE), max_attempts=2)
    counted = [(await queue.stats(run.id)).tasks]
    first = await claim_one(queue, run, lease=MINUTE)
    counted.append((await queue.stats(run.id)).tasks)
    await queue.settle([Retry(first, "again", after=MINUTE)])
    counted.append((await queue.stats(run.id)).tasks)
    await clock.forward(MINUTE)
    await queue.reclaim()
    counted.append((await queue.stats(run.id)).tasks)
    for lease in await claim_all(queue, run):
        await queue.settle([Done(lease)])
        counted.append((await queue.stats(run.id)).tasks)
    assert set(counted) == {3}
    stats = await queue.stats(run.id)
    assert (stats.remaining, stats.completed + stats.expired) == (0, 3)
