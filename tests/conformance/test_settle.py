"""Outcomes are applied atomically, and only for the holder of the lease."""

import pytest

from shoal.core.errors import InvalidItem, InvalidTask
from shoal.core.model import (
    MINUTE,
    SECOND,
    ZERO,
    Bury,
    Done,
    Fate,
    Lease,
    Outcome,
    Reject,
    Release,
    Retry,
    Task,
)
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock
from tests.conformance.helpers import (
    HOUR,
    ME,
    TEN,
    claim,
    claim_all,
    claim_one,
    data_of,
    every,
    page,
    pages,
    paths,
    start,
    start_one,
    the_dead,
    url,
)


async def test_promise_3_done_brings_items_rejects_and_follow_up_tasks_with_it(queue: Queue) -> None:
    run, lease = await start_one(queue)
    done = Done(
        lease,
        items=[{"title": "One"}, {"title": "Two"}],
        follow=[page(2), page(3, step="detail", delay=HOUR)],
        rejects=[Reject(data={"title": ""}, reason="title is empty")],
    )
    assert await queue.settle([done]) == [Fate.ACCEPTED]
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.pending, stats.delayed) == (1, 1, 1)
    assert (stats.items, stats.rejected) == (2, 1)
    assert await data_of(queue, run) == [{"title": "One"}, {"title": "Two"}]
    (reject,) = await every(queue.rejects(run.id))
    assert (reject.data, reject.reason, reject.url) == ({"title": ""}, "title is empty", url())


async def test_follow_up_tasks_obey_the_dedup_rule(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    first, second = await claim_all(queue, run)
    await queue.settle([Done(first, follow=[page(0), page(9), page(9, priority=5)])])
    await queue.settle([Done(second, follow=[page(1), page(9)])])
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.pending) == (3, 1)


async def test_one_call_with_the_same_follow_up_from_two_tasks_queues_it_once(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    first, second = await claim_all(queue, run)
    await queue.settle([Done(first, follow=[page(9)]), Done(second, follow=[page(9)])])
    assert (await queue.stats(run.id)).pending == 1


async def test_a_follow_up_enters_with_the_outcome_that_counts_and_not_with_a_stale_one(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    over, live = await claim_all(queue, run)
    await queue.settle([Done(over)])
    outcomes = [Done(over, follow=[page(9), page(8)]), Done(live, follow=[page(9)])]
    assert await queue.settle(outcomes) == [Fate.STALE, Fate.ACCEPTED]
    assert paths(await claim_all(queue, run)) == ["a.example/9"]


async def test_items_and_rejects_are_those_of_the_outcomes_that_count(queue: Queue) -> None:
    run = await start(queue, *pages(5))
    leases = await claim_all(queue, run)
    await queue.settle([Done(leases[0]), Done(leases[3])])
    outcomes = [
        Done(
            lease, items=[f"{n}a", "b" * 50 * n], rejects=[Reject(data=n, reason=f"no {n}")] if n % 2 else []
        )
        for n, lease in enumerate(leases)
    ]
    fates = [Fate.STALE, Fate.ACCEPTED, Fate.ACCEPTED, Fate.STALE, Fate.ACCEPTED]
    assert await queue.settle(outcomes) == fates
    assert await data_of(queue, run) == ["1a", "b" * 50, "2a", "b" * 100, "4a", "b" * 200]
    assert [(one.data, one.reason) for one in await every(queue.rejects(run.id))] == [(1, "no 1")]
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.items, stats.rejected) == (5, 6, 1)


async def test_of_follow_ups_with_one_key_the_first_that_counts_enters(queue: Queue) -> None:
    run = await start(queue, *pages(4))
    over, *live = await claim_all(queue, run)
    await queue.settle([Done(over)])
    brought = [[page(9, payload={"n": n}), page(9, payload={"n": 10 + n})] for n in (0, 1, 0, 2)]
    outcomes = [Done(lease, follow=follow) for lease, follow in zip([over, *live], brought, strict=True)]
    assert await queue.settle(outcomes) == [Fate.STALE] + [Fate.ACCEPTED] * 3
    (lease,) = await claim_all(queue, run)
    assert lease.task.payload == {"n": 1}


async def test_a_follow_up_task_keeps_its_fields(queue: Queue) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Done(lease, follow=[Task(step="deep", payload={"n": 1}, partition="ca", depth=4)])])
    task = (await claim_one(queue, run)).task
    assert (task.step, task.payload, task.partition, task.depth) == ("deep", {"n": 1}, "ca", 4)


async def test_retry_puts_a_task_back_at_once(queue: Queue) -> None:
    run, lease = await start_one(queue)
    assert await queue.settle([Retry(lease, "timed out")]) == [Fate.ACCEPTED]
    assert (await queue.stats(run.id)).pending == 1
    assert (await claim_one(queue, run)).task_id == lease.task_id


async def test_retry_after_a_while_delays_a_task(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Retry(lease, "timed out", after=MINUTE)])
    assert (await queue.stats(run.id)).delayed == 1
    await clock.forward(MINUTE / 2)
    assert not await claim(queue, run)
    await clock.forward(MINUTE / 2)
    again = await claim_one(queue, run)
    assert (again.task_id, again.attempt) == (lease.task_id, 2)


async def test_a_retry_without_an_attempt_left_becomes_a_dead_letter(queue: Queue) -> None:
    run, lease = await start_one(queue, max_attempts=2)
    await queue.settle([Retry(lease, "first")])
    assert await queue.settle([Retry(await claim_one(queue, run), "second", after=HOUR)]) == [Fate.ACCEPTED]
    stats = await queue.stats(run.id)
    assert (stats.dead, stats.remaining) == (1, 0)
    (dead,) = await the_dead(queue, run)
    assert (dead.attempts, dead.error) == (2, "second")


async def test_release_puts_a_task_back_at_once_without_a_trace(queue: Queue) -> None:
    run, lease = await start_one(queue, max_attempts=1)
    assert await queue.settle([Release(lease)]) == [Fate.ACCEPTED]
    assert (await queue.stats(run.id)).pending == 1
    again = await claim_one(queue, run)
    assert again.attempt == 1
    await queue.settle([Bury(again, "gone")])
    (dead,) = await the_dead(queue, run)
    assert [attempt.error for attempt in dead.history] == ["gone"]


async def test_release_after_a_while_delays_a_task_and_gives_its_attempt_back(
    queue: Queue, clock: Clock
) -> None:
    run, lease = await start_one(queue, max_attempts=1)
    assert await queue.settle([Release(lease, after=MINUTE)]) == [Fate.ACCEPTED]
    assert (await queue.stats(run.id)).delayed == 1
    await clock.forward(MINUTE / 2)
    assert not await claim(queue, run)
    await clock.forward(MINUTE / 2)
    again = await claim_one(queue, run)
    assert (again.task_id, again.attempt) == (lease.task_id, 1)
    await queue.settle([Bury(again, "gone")])
    (dead,) = await the_dead(queue, run)
    assert [attempt.error for attempt in dead.history] == ["gone"]


async def test_a_claim_tells_when_a_released_task_comes_due(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Release(lease, after=TEN)])
    grant = await queue.claim(ME, run_id=run.id)
    assert not grant.leases and not grant.drained
    assert grant.next_due is not None and ZERO < grant.next_due <= TEN
    await clock.forward(grant.next_due)
    while not (leases := await claim(queue, run)):  # a broker may deliver it a little later
        await clock.forward(SECOND)
    assert leases[0].task_id == lease.task_id


async def test_a_released_task_frees_its_host_at_once(queue: Queue) -> None:
    run = await start(queue, *pages(2), per_host=1)
    lease = await claim_one(queue, run)
    assert not await claim(queue, run)
    await queue.settle([Release(lease, after=HOUR)])
    assert (await claim_one(queue, run)).task_id != lease.task_id


async def test_a_task_that_waits_after_its_release_may_expire(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, page(ttl=MINUTE))
    await queue.settle([Release(lease, after=HOUR)])
    await clock.forward(2 * MINUTE)
    assert not await claim(queue, run)
    assert (await queue.stats(run.id)).expired == 1


async def test_the_fates_come_in_the_order_of_the_outcomes(queue: Queue) -> None:
    run = await start(queue, *pages(4))
    a, b, c, d = await claim_all(queue, run)
    await queue.settle([Done(b), Done(d)])
    fates = await queue.settle([Done(a), Done(b), Bury(c, "no"), Release(d)])
    assert fates == [Fate.ACCEPTED, Fate.STALE, Fate.ACCEPTED, Fate.STALE]


async def test_one_call_settles_tasks_of_many_runs(queue: Queue) -> None:
    leases = [(await start_one(queue))[1] for _ in range(3)]
    assert await queue.settle([Done(lease, items=[1]) for lease in leases]) == [Fate.ACCEPTED] * 3
    for lease in leases:
        assert (await queue.stats(lease.run_id)).items == 1


def _each(lease: Lease) -> list[Outcome]:
    return [Done(lease, items=[1], follow=[page(9)]), Retry(lease, "x"), Bury(lease, "x"), Release(lease)]


async def test_promise_2_settling_twice_is_stale_and_changes_nothing(queue: Queue) -> None:
    for first in range(4):
        run, lease = await start_one(queue, max_attempts=1)
        assert await queue.settle([_each(lease)[first]]) == [Fate.ACCEPTED]
        before = await queue.stats(run.id)
        for second in _each(lease):
            assert await queue.settle([second]) == [Fate.STALE]
        assert await queue.stats(run.id) == before


async def test_of_two_outcomes_for_one_lease_in_one_call_the_first_is_obeyed(queue: Queue) -> None:
    run, lease = await start_one(queue)
    fates = await queue.settle(
        [Done(lease, items=["first"]), Done(lease, items=["second"], follow=[page(9)])]
    )
    assert fates == [Fate.ACCEPTED, Fate.STALE]
    assert await data_of(queue, run) == ["first"]
    assert (await queue.stats(run.id)).tasks == 1


async def test_promise_2_an_old_token_is_stale_and_changes_nothing(queue: Queue) -> None:
    run, old = await start_one(queue)
    await queue.settle([Release(old)])
    new = await claim_one(queue, run)
    before = await queue.stats(run.id)
    assert await queue.settle([Done(old, items=["late"], follow=[page(9)])]) == [Fate.STALE]
    assert await queue.extend([old]) == [Fate.STALE]
    assert await queue.stats(run.id) == before
    assert await data_of(queue, run) == []
    assert await queue.settle([Done(new)]) == [Fate.ACCEPTED]


class Strange:
    """A value that JSON cannot represent."""


async def test_promise_3_an_item_that_cannot_be_stored_raises_and_changes_nothing(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    first, second = await claim_all(queue, run)
    before = await queue.stats(run.id)
    for bad in (Strange(), {"text": "a\0b"}, {"text": "\ud800"}, {"deep": [Strange()]}):
        with pytest.raises(InvalidItem):
            await queue.settle([Done(first, items=[1]), Done(second, items=[2, bad], follow=[page(9)])])
        with pytest.raises(InvalidItem):
            await queue.settle([Done(first, rejects=[Reject(data=bad, reason="odd")])])
    assert await queue.stats(run.id) == before
    assert await queue.settle([Done(first), Done(second)]) == [Fate.ACCEPTED] * 2
    assert await data_of(queue, run) == []


async def test_promise_3_a_follow_up_that_cannot_be_queued_raises_and_changes_nothing(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    first, second = await claim_all(queue, run)
    before = await queue.stats(run.id)
    for bad in (
        Task(url="nonsense"),
        page(priority=42),
        page(payload={"x": Strange()}),
        page(host=f"{'a.' * 1500}example"),
    ):
        with pytest.raises(InvalidTask):
            await queue.settle([Done(first, items=[1]), Done(second, follow=[page(9), bad])])
    assert await queue.stats(run.id) == before
    assert await queue.settle([Done(second)]) == [Fate.ACCEPTED]


async def test_what_is_leased_may_be_settled_in_a_run_that_stands_still(queue: Queue) -> None:
    for steer in (queue.pause, queue.cancel):
        run, lease = await start_one(queue)
        await steer(run.id)
        assert await queue.extend([lease]) == [Fate.ACCEPTED]
        assert await queue.settle([Done(lease, items=[1], follow=[page(2)])]) == [Fate.ACCEPTED]
        stats = await queue.stats(run.id)
        assert (stats.completed, stats.items, stats.pending) == (1, 1, 1)


async def test_an_error_with_odd_characters_is_kept_all_the_same(queue: Queue) -> None:
    run = await start(queue, *pages(2), max_attempts=1)
    first, second = await claim_all(queue, run)
    errors = ["bad byte \0 in Grüße", "half a character \ud800"]
    assert await queue.settle([Bury(first, errors[0]), Retry(second, errors[1])]) == [Fate.ACCEPTED] * 2
    assert {dead.error[:3] for dead in await the_dead(queue, run)} == {"bad", "hal"}


async def test_a_large_settlement_lands_whole(queue: Queue) -> None:
    run = await start(queue, *pages(300))
    leases = await claim_all(queue, run, limit=300)
    outcomes = [
        Done(lease, items=[{"n": n}], follow=[page(f"{n}-{k}", step="detail") for k in range(5)])
        for n, lease in enumerate(leases)
    ]
    assert await queue.settle(outcomes) == [Fate.ACCEPTED] * 300
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.items, stats.pending, stats.tasks) == (300, 300, 1500, 1800)
