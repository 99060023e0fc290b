"""Every task can be listed: its state, which worker holds it since when, and its results."""

from importlib import import_module
from typing import Any

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import MINUTE, SECOND, Bury, Done, Reject, Retry, Run, Task, TaskState, TaskStatus
from shoal.queue.contract import Queue
from shoal.queue.intake import task_id
from tests.conformance.backends import Clock, StoreUnderTest
from tests.conformance.helpers import (
    HOUR,
    ME,
    claim,
    claim_all,
    claim_one,
    every,
    page,
    pages,
    start,
    start_one,
    url,
)

NEAR = 5 * SECOND


async def listed(queue: Queue, run: Run, **asked: Any) -> list[TaskStatus]:
    return await every(queue.tasks(run.id, **asked))


async def the_only(queue: Queue, run: Run, **asked: Any) -> TaskStatus:
    (status,) = await listed(queue, run, **asked)
    return status


async def make_listable(queue: Queue, run: Run) -> None:
    """Claim and return the tasks of a run, because tasks in a broker cannot be listed before a claim."""
    await queue.settle([Retry(lease, "later") for lease in await claim_all(queue, run)])


async def test_an_empty_run_has_no_task_to_show_and_an_unknown_one_is_refused(queue: Queue) -> None:
    assert await listed(queue, await start(queue)) == []
    with pytest.raises(UnknownRun):
        await every(queue.tasks("nowhere"))
    with pytest.raises(UnknownRun):
        await queue.entered("nowhere", ["0" * 32])


async def test_pending_tasks_are_shown_whole(queue: Queue) -> None:
    task = page(1, step="book", payload={"n": [1, "ü"]}, key="k", partition="ca", priority=7, depth=3)
    run = await start(queue, task, Task(payload={"user": 7}), max_attempts=9)
    await make_listable(queue, run)
    found = {status.step: status for status in await listed(queue, run)}
    book = found["book"]
    assert (book.state, book.url, book.attempt) == (TaskState.PENDING, url(1), 1)
    assert (book.worker_id, book.since, book.items) == (None, None, None)
    assert book.task == task
    assert found["main"].task
    assert (found["main"].url, dict(found["main"].task.payload)) == (None, {"user": 7})


async def test_a_leased_task_shows_its_holder_and_since_when(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, max_attempts=3)
    await clock.forward(MINUTE)
    await queue.extend([lease], lease=HOUR)
    status = await the_only(queue, run)
    assert (status.id, status.state, status.worker_id) == (lease.task_id, TaskState.LEASED, ME)
    assert status.attempt == lease.attempt == 1
    assert status.task == lease.task
    assert status.since
    assert abs(clock.now() - status.since - MINUTE) < NEAR


async def test_a_task_that_waits_to_be_tried_again_is_delayed(queue: Queue) -> None:
    run, lease = await start_one(queue, max_attempts=3)
    await queue.settle([Retry(lease, "busy", after=5 * SECOND)])
    status = await the_only(queue, run)
    assert (status.state, status.attempt, status.worker_id) == (TaskState.DELAYED, 1, None)
    assert status.task == lease.task


async def test_a_dead_task_shows_when_it_was_buried(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Bury(lease, "gone")])
    await clock.forward(MINUTE)
    status = await the_only(queue, run)
    assert (status.state, status.attempt, status.url) == (TaskState.DEAD, 1, url(1))
    assert status.since
    assert abs(clock.now() - status.since - MINUTE) < NEAR


async def test_a_dropped_task_stays_visible_and_a_replayed_one_is_pending(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    one, other = await claim_all(queue, run)
    await queue.settle([Bury(one, "gone"), Bury(other, "gone")])
    await queue.drop(run.id, [one.task_id])
    await queue.replay(run.id, [other.task_id])
    found = {status.id: status for status in await listed(queue, run)}
    assert found[one.task_id].state is TaskState.DROPPED
    assert found[one.task_id].task == one.task
    assert (found[other.task_id].state, found[other.task_id].attempt) == (TaskState.PENDING, 0)


async def test_an_expired_task_is_shown(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1, ttl=MINUTE), page(2), max_attempts=9)
    await make_listable(queue, run)
    assert [status.state for status in await listed(queue, run)] == [TaskState.PENDING] * 2
    await clock.forward(MINUTE)
    await queue.reclaim()
    (status,) = await listed(queue, run, states=[TaskState.EXPIRED])
    assert (status.state, status.url) == (TaskState.EXPIRED, url(1))


async def test_a_completed_task_that_yielded_something_shows_what(queue: Queue) -> None:
    run = await start(queue, *pages(3), page(9, step="book"))
    leases = {lease.task.url: lease for lease in await claim_all(queue, run)}
    rejects = [Reject(data=1, reason="odd")]
    await queue.settle(
        [
            Done(leases[url(0)], items=["a", "b"]),
            Done(leases[url(1)], items=["c"], rejects=rejects),
            Done(leases[url(2)], rejects=rejects),
            Done(leases[url(9)], items=["d"]),
        ]
    )
    found = await listed(queue, run)
    assert all(status.state is TaskState.COMPLETED and status.attempt == 0 for status in found)
    assert {(status.id, status.step, status.url, status.items) for status in found} == {
        (leases[url(n)].task_id, step, url(n), items)
        for n, step, items in [(0, "main", 2), (1, "main", 1), (2, "main", 0), (9, "book", 1)]
    }


async def test_every_completed_task_is_found_by_its_name(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])
    (status,) = await listed(queue, run, keys=[url(1)])
    assert (status.state, status.step, status.items) == (TaskState.COMPLETED, "main", 0)


async def test_tasks_are_found_by_key_url_and_payload_in_every_step(queue: Queue) -> None:
    tasks = [
        page(1, step="list"),
        page(1, step="detail"),
        page(2, key="isbn-7", step="detail"),
        Task(payload={"b": 1, "a": 2}, step="user"),
        page(3, step="list"),
    ]
    run = await start(queue, *tasks)
    held = await claim_all(queue, run)
    assert len(held) == 5

    async def found(*keys: str, step: str | None = None) -> set[tuple[str, str | None]]:
        return {(status.step, status.url) for status in await listed(queue, run, keys=keys, step=step)}

    assert await found(url(1)) == {("list", url(1)), ("detail", url(1))}
    assert await found("HTTPS://A.example:443/1", step="list") == {("list", url(1))}
    assert await found("isbn-7") == {("detail", url(2))}
    assert await found(url(2)) == set()
    assert await found('{"a": 2, "b": 1}') == {("user", None)}
    assert await found(url(3), "isbn-7", "nobody") == {("list", url(3)), ("detail", url(2))}
    assert await found() == set()


async def test_steps_and_states_narrow_a_listing(queue: Queue) -> None:
    run = await start(queue, *(page(n, step=step) for n in range(3) for step in ("list", "book")))
    other = await start(queue, page(9, step="list"))
    await claim_all(queue, other)
    leases = await claim_all(queue, run, steps=["list"])
    await queue.settle([Done(leases[0], items=[1]), Bury(leases[1], "gone")])
    await claim_one(queue, run, steps=["book"])

    async def count(**asked: Any) -> int:
        return len(await listed(queue, run, **asked))

    assert await count(step="list") == 3
    assert await count(step="nowhere") == 0
    assert await count(states=[]) == 0
    assert await count(states=[TaskState.LEASED]) == 2
    assert await count(states=[TaskState.LEASED], step="list") == 1
    assert await count(states={TaskState.COMPLETED, TaskState.DEAD}) == 2
    assert await count(states=[TaskState.DEAD], keys=[leases[1].task.url]) == 1
    assert await count(states=[TaskState.DEAD], keys=[leases[0].task.url]) == 0


SMALL_PAGES = {"PAGE": 7, "TASKS": 10, "BLOCKS": 1}
BACKENDS_WITH_LIST = {"sqlite": "sqlite", "postgres": "postgres"}  # the others are in Redis


@pytest.fixture
def small_pages(store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    if store.backend == "model":
        return
    task_list = import_module(f"shoal.queue.{BACKENDS_WITH_LIST.get(store.backend, 'redis')}.task_list")
    for name, size in SMALL_PAGES.items():
        if hasattr(task_list, name):
            monkeypatch.setattr(task_list, name, size)


@pytest.mark.usefixtures("small_pages")
async def test_long_listings_come_whole_and_each_task_once(queue: Queue) -> None:
    tasks = [page(n, f"h{n % 7}.example", ttl=HOUR if n % 5 == 0 else None) for n in range(500)]
    run = await start(queue, *tasks, *(Task(key=f"k{n}") for n in range(100)), max_attempts=9)
    leases = await claim_all(queue, run, limit=60)
    await queue.settle([Retry(lease, "later") for lease in leases[:150]])
    await queue.settle([Retry(lease, "later", after=5 * SECOND) for lease in leases[150:250]])
    await queue.settle([Bury(lease, "gone") for lease in leases[250:400]])
    await queue.drop(run.id, [lease.task_id for lease in leases[350:400]])
    for start_at in range(400, 550, 10):
        some = leases[start_at : start_at + 10]
        await queue.settle([Done(lease, items=[1], rejects=[Reject(data=1, reason="odd")]) for lease in some])
    found = await listed(queue, run)
    assert len({status.id for status in found}) == len(found) == 600
    stats = await queue.stats(run.id)
    for state in TaskState:
        assert sum(status.state is state for status in found) == getattr(stats, state), state


async def test_it_is_known_which_tasks_have_entered_a_run_whatever_became_of_them(queue: Queue) -> None:
    run = await start(queue, *pages(6), max_attempts=1)
    other = await start(queue, page(9))
    leases = await claim(queue, run, limit=3)
    await queue.settle([Done(leases[0], items=[1]), Done(leases[1]), Bury(leases[2], "broken")])
    ids = [task_id(run, task) for task in pages(6)]
    strange = [task_id(other, page(9)), "0" * 32, "nonsense"]
    assert await queue.entered(run.id, [*ids, *strange]) == set(ids)
    assert await queue.entered(run.id, []) == set()
