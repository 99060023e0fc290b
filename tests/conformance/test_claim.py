"""A claim leases the tasks that match, by falling priority, and reports what is left."""

from datetime import timedelta
from typing import Any

import pytest

from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Done, Fate, Release, Retry, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import (
    HOST,
    HOUR,
    ME,
    claim,
    claim_all,
    claim_one,
    page,
    pages,
    paths,
    start,
    start_one,
)


async def test_a_claim_hands_out_no_more_than_its_limit_and_no_task_twice(queue: Queue) -> None:
    run = await start(queue, *pages(25))
    grants = [await claim(queue, run, limit=10) for _ in range(4)]
    assert [len(leases) for leases in grants] == [10, 10, 5, 0]
    assert len({lease.task_id for leases in grants for lease in leases}) == 25


async def test_steps_narrow_a_claim(queue: Queue) -> None:
    run = await start(queue, *(page(step=step) for step in ("list", "detail", "image")))
    leases = await claim_all(queue, run, steps=["list", "image", "unheard of"])
    assert sorted(lease.task.step for lease in leases) == ["image", "list"]
    assert [lease.task.step for lease in await claim_all(queue, run)] == ["detail"]


async def test_steps_and_partitions_narrow_together(queue: Queue) -> None:
    tasks = [page(name, step=step, partition=name) for step in ("list", "detail") for name in ("ca", "ny")]
    run = await start(queue, *tasks)
    (lease,) = await claim_all(queue, run, steps=["detail"], partitions=["ca"])
    assert (lease.task.step, lease.task.partition) == ("detail", "ca")


async def test_an_empty_list_means_none(queue: Queue) -> None:
    run = await start(queue, page())
    for narrow in ("steps", "partitions"):
        grant = await queue.claim(ME, run_id=run.id, **{narrow: []})  # type: ignore[arg-type]
        assert not grant.leases
        assert not grant.drained


async def test_promise_8_tasks_of_one_host_leave_in_strict_order_of_priority(queue: Queue) -> None:
    order = [3, 9, 0, 5, 9, 1, 7, 2, 8, 6, 4, 0]
    run = await start(queue, *(page(number, priority=rank) for number, rank in enumerate(order)))
    left = [(await claim_one(queue, run)).task.priority for _ in order]
    assert left == sorted(order, reverse=True)


async def test_priority_is_strict_within_a_host_across_steps_and_partitions(queue: Queue) -> None:
    run = await start(
        queue,
        page(1, priority=2, step="list"),
        page(2, priority=4, step="detail", partition="ca"),
        page(3, priority=3, step="list", partition="ny"),
        page(4, priority=1, step="detail"),
    )
    assert [(await claim_one(queue, run)).task.priority for _ in range(4)] == [4, 3, 2, 1]


async def test_the_places_of_a_host_go_to_the_highest_priority_of_all_its_steps(queue: Queue) -> None:
    run = await start(
        queue,
        page(1, priority=9, step="list"),
        page(2, priority=1, step="list"),
        page(3, priority=5, step="detail"),
        per_host=2,
    )
    assert sorted(lease.task.priority for lease in await claim_all(queue, run, limit=10)) == [5, 9]


async def test_one_grant_holds_the_tasks_of_highest_priority(queue: Queue) -> None:
    run = await start(queue, *(page(number, priority=number % 10) for number in range(30)))
    leases = await claim(queue, run, limit=9)
    assert sorted(lease.task.priority for lease in leases) == [7, 7, 7, 8, 8, 8, 9, 9, 9]


async def test_across_hosts_higher_priority_comes_first(queue: Queue) -> None:
    run = await start(
        queue,
        page(1, "a.example", priority=9),
        page(2, "a.example", priority=1),
        page(1, "b.example", priority=5),
        page(1, "c.example", priority=3),
    )
    assert sorted(lease.task.priority for lease in await claim(queue, run, limit=2)) == [5, 9]
    assert sorted(lease.task.priority for lease in await claim(queue, run, limit=2)) == [1, 3]


async def test_a_task_that_comes_later_goes_first_if_it_matters_more(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    await queue.enqueue(run.id, [page("urgent", priority=1)])
    assert paths([await claim_one(queue, run)]) == [f"{HOST}/urgent"]


async def test_a_host_that_has_waited_long_goes_first_once_it_gets_what_matters_more(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, Task(priority=9), page("old", priority=5), page(1, "b.example", priority=7))
    await clock.forward(MINUTE)
    assert (await claim_one(queue, run)).task.priority == 9
    await queue.enqueue(run.id, [page("new", priority=9)])
    assert [(await claim_one(queue, run)).task.priority for _ in range(3)] == [9, 7, 5]


async def test_places_that_another_run_takes_at_a_host_do_not_upset_the_order(queue: Queue) -> None:
    other = await start(queue, page())
    await claim_one(queue, other)
    run = await start(queue, *(page(rank, priority=rank) for rank in (9, 5, 1)), Task(), per_host=3)
    assert sorted(lease.task.priority for lease in await claim(queue, run, limit=2)) == [5, 9]


async def test_promise_7_attempts_are_counted_at_the_claim(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, lease=MINUTE, max_attempts=9)
    assert lease.attempt == 1
    await queue.settle([Retry(lease, "try again")])
    lease = await claim_one(queue, run, lease=MINUTE)
    assert lease.attempt == 2
    await clock.forward(MINUTE)
    await queue.reclaim()
    assert (await claim_one(queue, run)).attempt == 3


async def test_promise_7_a_release_gives_the_attempt_back(queue: Queue) -> None:
    run, lease = await start_one(queue, max_attempts=1)
    for _ in range(3):
        assert lease.attempt == 1
        assert await queue.settle([Release(lease)]) == [Fate.ACCEPTED]
        lease = await claim_one(queue, run)
    assert (await queue.stats(run.id)).dead == 0


async def test_promise_2_the_token_rises_with_every_claim_of_a_task(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, lease=MINUTE, max_attempts=3)
    tokens = [lease.token]
    await queue.settle([Release(lease)])
    lease = await claim_one(queue, run, lease=MINUTE)
    tokens.append(lease.token)
    await clock.forward(MINUTE)
    await queue.reclaim()
    lease = await claim_one(queue, run)
    tokens.append(lease.token)
    await queue.settle([Bury(lease, "enough")])
    await queue.replay(run.id)
    tokens.append((await claim_one(queue, run)).token)
    assert tokens == sorted(set(tokens))


async def test_the_deadline_counts_from_the_claim_and_from_the_start(queue: Queue) -> None:
    gap = timedelta(milliseconds=400)
    run = await start(queue, *pages(3), host_delay=gap)
    for lease in await claim(queue, run, lease=7 * MINUTE):
        assert abs(lease.deadline_in - lease.start_in - 7 * MINUTE) < timedelta(milliseconds=1)


async def test_a_paused_run_grants_nothing_and_is_not_drained(queue: Queue) -> None:
    run = await start(queue, page())
    await queue.pause(run.id)
    grant = await queue.claim(ME, run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    await queue.resume(run.id)
    assert len(await claim(queue, run)) == 1


async def test_a_paused_run_without_a_task_left_is_not_drained_either(queue: Queue) -> None:
    run = await start(queue)
    await queue.pause(run.id)
    assert not (await queue.claim(ME, run_id=run.id)).drained


async def test_a_cancelled_run_grants_nothing_and_is_drained(queue: Queue) -> None:
    run = await start(queue, page())
    await queue.cancel(run.id)
    grant = await queue.claim(ME, run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], True)
    assert (await queue.stats(run.id)).pending == 1


async def test_a_run_is_drained_once_nothing_is_pending_delayed_or_leased(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1), page(2, delay=HOUR))
    first = await queue.claim(ME, run_id=run.id)
    assert not first.drained
    assert not (await queue.claim(ME, run_id=run.id)).drained
    await queue.settle([Done(first.leases[0])])
    assert not (await queue.claim(ME, run_id=run.id)).drained
    await clock.forward(HOUR)
    await queue.settle([Bury(await claim_one(queue, run), "gone")])
    assert (await queue.claim(ME, run_id=run.id)).drained


async def test_tasks_outside_the_filters_keep_a_run_from_being_drained(queue: Queue) -> None:
    run = await start(queue, page(step="detail"))
    assert not (await queue.claim(ME, run_id=run.id, steps=["list"])).drained


async def test_expired_tasks_leave_a_run_drained(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(ttl=MINUTE))
    await clock.forward(MINUTE)
    assert (await queue.claim(ME, run_id=run.id)).drained


async def test_promise_10_next_due_says_how_long_until_a_delay_is_over(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1, delay=HOUR), page(2, delay=2 * HOUR))
    await clock.forward(HOUR / 2)
    due = (await queue.claim(ME, run_id=run.id)).next_due
    assert due is not None
    assert ZERO <= due <= HOUR / 2 + SECOND
    assert due > HOUR / 2 - MINUTE


async def test_next_due_says_how_long_until_a_host_may_be_asked_again(queue: Queue) -> None:
    run = await start(queue, *pages(2), host_delay=10 * MINUTE)
    await claim_one(queue, run, lease=HOUR)
    due = (await queue.claim(ME, run_id=run.id)).next_due
    assert due is not None
    assert 9 * MINUTE < due <= 10 * MINUTE + SECOND


async def test_next_due_says_how_long_a_pause_lasts(queue: Queue) -> None:
    run = await start(queue, page())
    await queue.pause_host(HOST, 10 * MINUTE)
    due = (await queue.claim(ME, run_id=run.id)).next_due
    assert due is not None
    assert 9 * MINUTE < due <= 10 * MINUTE + SECOND


async def test_an_unknown_run_is_refused_with_a_hint(queue: Queue) -> None:
    await start(queue, run_id="books-2026")
    with pytest.raises(UnknownRun, match="Did you mean 'books-2026'"):
        await queue.claim(ME, run_id="books-2027")


@by_contract
async def test_a_limit_below_one_and_a_lease_without_length_are_refused(queue: Queue) -> None:
    run = await start(queue, page())
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": -1}, {"lease": ZERO}, {"lease": -MINUTE}]
    for asked in wrong:
        with pytest.raises(InvalidSetting, match=next(iter(asked))):
            await queue.claim(ME, run_id=run.id, **asked)
    assert (await queue.stats(run.id)).pending == 1
