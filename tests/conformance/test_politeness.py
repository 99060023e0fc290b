"""No host is flooded: its limits apply at the claim and are shared by all runs and workers."""

from collections.abc import Callable
from datetime import timedelta

from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Done, Fate, Lease, Outcome, Release, Retry, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Bench, Clock, lasting
from tests.conformance.helpers import (
    HOST,
    HOUR,
    TEN,
    claim,
    claim_all,
    claim_one,
    page,
    pages,
    paths,
    start,
    start_one,
    the_host,
)

PROMPT = timedelta(milliseconds=1)


async def test_promise_5_between_two_starts_on_a_host_lies_the_hosts_delay(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(10), host_delay=3 * TEN)
    granted = []
    for _ in range(10):
        granted.append(len(await claim(queue, run)))
        await clock.forward(TEN)
    assert granted == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]


async def test_the_gap_counts_from_start_to_start_and_not_from_the_settling(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(2), host_delay=MINUTE)
    lease = await claim_one(queue, run)
    await clock.forward(MINUTE)
    await queue.settle([Done(lease)])
    assert len(await claim(queue, run)) == 1


async def test_hosts_do_not_wait_for_each_other(queue: Queue) -> None:
    hosts = [f"h{number}.example" for number in range(5)]
    run = await start(queue, *(page(n, host) for host in hosts for n in range(2)), host_delay=MINUTE)
    asked = [path.partition("/")[0] for path in paths(await claim_all(queue, run, limit=3))]
    assert sorted(asked) == hosts


async def test_a_port_is_a_host_of_its_own_and_a_scheme_is_not(queue: Queue) -> None:
    urls = [
        "https://a.example/1",
        "http://a.example/2",
        "https://a.example:8443/3",
        "https://www.a.example/4",
    ]
    run = await start(queue, *(Task(url=one) for one in urls), host_delay=HOUR)
    leases = await claim_all(queue, run)
    assert len(leases) == 3
    names = [status.host async for status in queue.hosts(run.id)]
    assert sorted(names) == ["a.example", "a.example:8443", "www.a.example"]


async def test_a_burst_hands_out_one_host_with_rising_starts_under_a_second(queue: Queue) -> None:
    gap = timedelta(milliseconds=300)
    run = await start(queue, *pages(20), host_delay=gap)
    starts = sorted(lease.start_in for lease in await claim(queue, run))
    assert 1 <= len(starts) <= 4
    assert all(abs(start - number * gap) <= PROMPT for number, start in enumerate(starts))


async def test_a_burst_is_counted_when_the_next_claim_comes(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(100), host_delay=timedelta(milliseconds=900))
    handed = 0
    for _ in range(10):
        handed += len(await claim(queue, run))
        await clock.forward(SECOND)
    # Ten seconds allow 12 starts, and 20 if bursts were not counted; a real clock may add a few.
    assert 10 <= handed <= 16


async def test_without_a_delay_all_tasks_of_a_host_start_at_once(queue: Queue) -> None:
    run = await start(queue, *pages(20))
    leases = await claim_all(queue, run)
    assert len(leases) == 20
    assert {lease.start_in for lease in leases} == {ZERO}


async def test_promise_5_no_more_than_per_host_leases_of_a_host_are_live(queue: Queue) -> None:
    run = await start(queue, *pages(5), per_host=2)
    leases = await claim_all(queue, run)
    assert len(leases) == 2
    await queue.settle([Done(leases[0])])
    assert len(await claim_all(queue, run)) == 1


ENDINGS: dict[str, Callable[[Lease], Outcome]] = {
    "done": Done,
    "retry": lambda lease: Retry(lease, "again", after=HOUR),
    "bury": lambda lease: Bury(lease, "no"),
    "release": Release,
}


async def test_every_outcome_frees_the_place_at_its_host(queue: Queue) -> None:
    run = await start(queue, *pages(9), per_host=1)
    for ending in ENDINGS.values():
        lease = await claim_one(queue, run)
        assert not await claim(queue, run)
        await queue.settle([ending(lease)])
    assert len(await claim(queue, run)) == 1


async def test_a_lost_lease_gives_its_place_up_at_the_next_claim_or_reclaim(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(3), per_host=1)
    await claim_one(queue, run, lease=MINUTE)
    for reclaimed in (True, False):
        assert not await claim(queue, run)
        await clock.forward(MINUTE)
        assert not reclaimed or await queue.reclaim() == 1
        assert len(await claim(queue, run, lease=MINUTE)) == 1


async def test_live_leases_are_counted_over_all_runs(queue: Queue) -> None:
    run = await start(queue, *pages(5), per_host=3)
    strict = await start(queue, *pages(5), per_host=1)
    lease = await claim_one(queue, run)
    assert not await claim(queue, strict)
    assert len(await claim_all(queue, run)) == 2
    await queue.settle([Done(lease)])
    assert not await claim(queue, strict)


async def test_a_purged_run_holds_no_place_at_a_host(queue: Queue) -> None:
    run = await start(queue, page(), per_host=1)
    await claim_one(queue, run)
    other = await start(queue, page(), per_host=1)
    await queue.purge(run.id)
    assert len(await claim(queue, other)) == 1


async def test_two_runs_with_different_delays_keep_the_longer_one(queue: Queue, clock: Clock) -> None:
    slow = await start(queue, *pages(3), host_delay=6 * TEN)
    quick = await start(queue, *pages(3), host_delay=TEN)
    await claim_one(queue, slow)
    await clock.forward(5 * TEN)
    assert not await claim(queue, quick)
    await clock.forward(TEN)
    assert len(await claim(queue, quick)) == 1
    await clock.forward(5 * TEN)
    assert not await claim(queue, slow)
    assert len(await claim(queue, quick)) == 1
    await clock.forward(6 * TEN)
    assert len(await claim(queue, slow)) == 1


async def test_a_paused_host_is_not_asked_by_any_run(queue: Queue, clock: Clock) -> None:
    run, other = await start(queue, page()), await start(queue, page())
    await queue.pause_host(HOST, MINUTE)
    await clock.forward(5 * TEN)
    assert not await claim(queue, run)
    assert not await claim(queue, other)
    await clock.forward(TEN)
    assert len(await claim(queue, run)) == 1
    assert len(await claim(queue, other)) == 1


async def test_a_pause_becomes_longer_but_never_shorter_and_zero_ends_it(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page())
    for pause in (TEN, HOUR, TEN):
        await queue.pause_host(HOST, pause)
    await clock.forward(MINUTE)
    assert not await claim(queue, run)
    await queue.pause_host(HOST, ZERO)
    assert (await the_host(queue)).paused_for is None
    assert len(await claim(queue, run)) == 1


async def test_a_slowed_host_keeps_its_own_delay_in_all_runs(queue: Queue, clock: Clock) -> None:
    run, other = await start(queue, *pages(3)), await start(queue, *pages(3), host_delay=TEN)
    await queue.slow_host(HOST, MINUTE)
    assert len(await claim_all(queue, run)) == 1
    await clock.forward(5 * TEN)
    assert not await claim(queue, run)
    assert not await claim(queue, other)
    await clock.forward(TEN)
    assert len(await claim(queue, other)) == 1


async def test_a_host_is_never_quicker_than_the_run_asks_for(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(3), host_delay=MINUTE)
    await queue.slow_host(HOST, TEN)
    await claim_one(queue, run)
    await clock.forward(5 * TEN)
    assert not await claim(queue, run)


async def test_a_turn_is_a_start_that_claims_and_other_turns_keep_their_gap_to(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(3), host_delay=MINUTE)
    await claim_one(queue, run)
    waits = [await queue.take_turn(HOST, MINUTE) for _ in range(2)]
    assert [round(wait / SECOND) for wait in waits] == [60, 120]
    await clock.forward(2 * MINUTE)
    assert not await claim(queue, run)
    await clock.forward(MINUTE)
    await claim_one(queue, run)


async def test_a_start_that_is_given_back_leaves_a_turn_after_it_in_place(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(3), host_delay=MINUTE)
    await claim_one(queue, run)
    await clock.forward(MINUTE)
    lease = await claim_one(queue, run)
    assert await queue.take_turn(HOST, TEN) > 50 * SECOND
    await queue.settle([Release(lease, asked=False)])
    assert not await claim(queue, run)
    assert await queue.take_turn("unknown.example", MINUTE) == ZERO


async def test_a_slow_host_is_freed_with_zero(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    await queue.slow_host(HOST, HOUR)
    await claim_one(queue, run)
    await queue.slow_host(HOST, ZERO)
    assert (await the_host(queue)).delay is None
    assert len(await claim_all(queue, run)) == 2


BRAKES: dict[str, Callable[..., Outcome]] = {
    "done": Done,
    "retry": lambda lease, **brake: Retry(lease, "429", **brake),
    "bury": lambda lease, **brake: Bury(lease, "403", **brake),
}


async def test_promise_6_an_outcome_pauses_its_host_for_all_at_once(queue: Queue, clock: Clock) -> None:
    for outcome in BRAKES.values():
        run = await start(queue, *pages(3))
        other = await start(queue, *pages(3))
        lease = await claim_one(queue, run)
        await queue.settle([outcome(lease, pause_host=MINUTE)])
        assert 5 * TEN < (await the_host(queue)).paused_for <= MINUTE
        assert not await claim(queue, run)
        assert not await claim(queue, other)
        await clock.forward(MINUTE)
        assert await claim(queue, other)


async def test_promise_6_an_outcome_slows_its_host_for_all_at_once(queue: Queue, clock: Clock) -> None:
    for outcome in (*BRAKES.values(), Release):
        await queue.slow_host(HOST, ZERO)
        await clock.forward(MINUTE)
        run = await start(queue, *pages(3))
        other = await start(queue, *pages(3))
        lease = await claim_one(queue, run)
        await queue.settle([outcome(lease, slow_host=MINUTE)])
        assert (await the_host(queue)).delay == MINUTE
        assert not await claim(queue, other)
        await clock.forward(MINUTE)
        assert len(await claim_all(queue, other)) == 1


async def test_a_lease_tells_what_outcomes_have_slowed_its_host_to(queue: Queue, clock: Clock) -> None:
    run_id = await start(queue, *pages(3), host_delay=ZERO)
    lease = await claim_one(queue, run_id)
    assert lease.host_slowdown == ZERO
    await queue.settle([Retry(lease, "HttpStatus: 429", slow_host=TEN)])
    await clock.forward(TEN)
    lease = await claim_one(queue, run_id)
    assert lease.host_slowdown == TEN
    await queue.settle([Done(lease, slow_host=ZERO)])
    assert (await claim_one(queue, run_id)).host_slowdown == ZERO


async def test_what_an_operator_sets_is_no_slowdown_and_ends_one(queue: Queue, clock: Clock) -> None:
    run_id = await start(queue, *pages(3), host_delay=ZERO)
    await queue.settle([Retry(await claim_one(queue, run_id), "HttpStatus: 429", slow_host=HOUR)])
    await queue.slow_host(HOST, TEN)
    await clock.forward(TEN)
    lease = await claim_one(queue, run_id)
    assert lease.host_slowdown == ZERO
    await queue.settle([Done(lease, slow_host=ZERO)])
    assert not await claim(queue, run_id)
    await clock.forward(TEN)
    assert await claim(queue, run_id)


async def test_of_outcomes_of_one_host_in_one_call_the_longest_pause_and_the_last_delay_hold(
    queue: Queue,
) -> None:
    run = await start(queue, *pages(3))
    first, second, third = await claim_all(queue, run)
    await queue.settle(
        [
            Done(first, pause_host=HOUR, slow_host=HOUR),
            Done(second, pause_host=MINUTE, slow_host=MINUTE),
            Done(third),
        ]
    )
    assert (await the_host(queue)).delay == MINUTE
    assert (await the_host(queue)).paused_for > HOUR - MINUTE


async def test_an_outcome_pauses_no_other_host(queue: Queue) -> None:
    run = await start(queue, page(1, "a.example"), page(1, "b.example"))
    lease = await claim_one(queue, run)
    await queue.settle([Done(lease, pause_host=HOUR, slow_host=HOUR)])
    assert len(await claim_all(queue, run)) == 1


async def test_an_outcome_cannot_end_a_pause(queue: Queue) -> None:
    run, lease = await start_one(queue)
    await queue.pause_host(HOST, HOUR)
    await queue.settle([Retry(lease, "again", pause_host=ZERO)])
    assert not await claim(queue, run)


async def test_a_stale_outcome_neither_pauses_nor_slows(queue: Queue) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Release(lease)])
    assert await queue.settle([Done(lease, pause_host=HOUR, slow_host=HOUR)]) == [Fate.STALE]
    status = await the_host(queue)
    assert (status.paused_for, status.delay) == (None, None)
    assert len(await claim(queue, run)) == 1


async def test_an_outcome_of_a_task_without_url_brakes_nothing(queue: Queue) -> None:
    run = await start(queue, Task(payload={"n": 1}), Task(payload={"n": 2}), page(step="fetch"))
    lease = await claim_one(queue, run, steps=["main"])
    assert await queue.settle([Done(lease, pause_host=HOUR, slow_host=HOUR)]) == [Fate.ACCEPTED]
    assert len(await claim_all(queue, run)) == 2


async def test_promise_5_a_blocked_host_does_not_stand_in_front_of_a_free_one(queue: Queue) -> None:
    run = await start(queue, *pages(200, "full.example", priority=9), page("free", "free.example"))
    await queue.pause_host("full.example", HOUR)
    assert paths(await claim(queue, run, limit=1)) == ["free.example/free"]


async def test_many_blocked_hosts_do_not_stand_in_front_of_a_free_one(queue: Queue) -> None:
    blocked = [page(n, f"h{host}.example", priority=9) for host in range(300) for n in range(2)]
    run = await start(queue, *blocked, host_delay=HOUR)
    assert len(await claim_all(queue, run, limit=100)) == 300
    await queue.enqueue(run.id, [page("free", "free.example")])
    assert paths(await claim(queue, run, limit=1)) == ["free.example/free"]


async def test_tasks_without_url_are_never_held_back(queue: Queue) -> None:
    run = await start(queue, *(Task(payload={"n": n}) for n in range(20)), host_delay=HOUR, per_host=1)
    leases = await claim_all(queue, run)
    assert len(leases) == 20
    assert {lease.start_in for lease in leases} == {ZERO}


@lasting
async def test_promise_5_politeness_survives_a_restart(bench: Bench, clock: Clock) -> None:
    run = await start(bench.queue, *pages(3), page(1, "b.example"), host_delay=MINUTE)
    await bench.queue.pause_host("b.example", HOUR)
    await claim_one(bench.queue, run)
    queue = await bench.restart()
    assert not await claim(queue, run)
    await clock.forward(MINUTE)
    assert paths(await claim(queue, run))[0].startswith(HOST)
    assert (await the_host(queue, "b.example")).paused_for > MINUTE


@lasting
async def test_the_places_at_a_host_survive_a_restart(bench: Bench) -> None:
    run = await start(bench.queue, *pages(3), per_host=1)
    lease = await claim_one(bench.queue, run)
    queue = await bench.restart()
    assert not await claim(queue, run)
    assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]
    assert len(await claim(queue, run)) == 1
