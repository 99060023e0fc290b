"""Every list can continue after any of its rows, even a deleted one; no row is repeated or lost."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, SECOND, Bury, DeadFilter, Done, Reject, Retry, Run, TaskState
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import HOUR, claim, claim_all, every, page, pages, start

Behind = Callable[[str | None], AsyncIterator[Any]]
Between = Callable[[list[Any]], Awaitable[None]]


async def some(stream: AsyncIterator[Any], count: int) -> list[Any]:
    rows: list[Any] = []
    async for row in stream:
        rows.append(row)
        if len(rows) == count:
            break
    return rows


async def walked(behind: Behind, size: int, between: Between | None = None) -> list[Any]:
    """Read a list in pages of this size, each by the cursor of the row before it."""
    found: list[Any] = []
    while rows := await some(behind(found[-1].cursor if found else None), size):
        found += rows
        assert len(found) < 2_000, "the list never ends"
        if between:
            await between(rows)
    return found


def names(rows: list[Any]) -> list[str]:
    return [row.host if hasattr(row, "host") else row.id for row in rows]


async def a_bit_of_everything(queue: Queue, clock: Clock) -> Run:
    """Start a run with some tasks in every state."""
    mortal = [page(f"m{n}", f"h{n % 3}.example", ttl=MINUTE) for n in range(5)]
    run = await start(queue, *mortal, max_attempts=9)
    await clock.forward(MINUTE)
    await queue.reclaim()
    more = [page(n, f"h{n % 7}.example", ttl=HOUR if n % 4 == 0 else None) for n in range(150)]
    await queue.enqueue(run.id, more)
    leases = await claim_all(queue, run, limit=50)
    await queue.settle([Retry(lease, "later") for lease in leases[:90]])
    await queue.settle([Retry(lease, "later", after=5 * SECOND) for lease in leases[90:100]])
    await queue.settle([Bury(lease, "gone") for lease in leases[100:120]])
    await queue.drop(run.id, [lease.task_id for lease in leases[115:120]])
    refused = [Reject(data=1, reason="odd")]
    await queue.settle([Done(lease, items=[1, 2], rejects=refused) for lease in leases[120:140]])
    return run


def lists_of(queue: Queue, run: Run) -> dict[str, Behind]:
    return {
        "tasks": lambda after: queue.tasks(run.id, after=after),
        "tasks in states": lambda after: queue.tasks(run.id, states=list(TaskState)[:-1], after=after),
        "dead letters": lambda after: queue.dead(run.id, after=after),
        "what expired": lambda after: queue.expired(run.id, after=after),
        "hosts": lambda after: queue.hosts(after=after),
        "hosts of the run": lambda after: queue.hosts(run.id, after=after),
        **{
            str(state): lambda after, state=state: queue.tasks(run.id, states=[state], after=after)
            for state in TaskState
        },
    }


async def test_the_pages_of_every_list_together_are_the_list(queue: Queue, clock: Clock) -> None:
    run = await a_bit_of_everything(queue, clock)
    for name, behind in lists_of(queue, run).items():
        whole = await every(behind(None))
        assert len(set(names(whole))) == len(whole) > 0, name
        assert names(await every(behind(None))) == names(whole), f"{name}: the order is not fixed"
        assert names(await walked(behind, 1 + len(whole) // 10)) == names(whole), name


async def test_dead_letters_that_come_and_go_are_not_doubled_and_hide_no_others(queue: Queue) -> None:
    run = await start(queue, *pages(40), max_attempts=1)
    old, new = (leases := await claim_all(queue, run))[:30], leases[30:]
    await queue.settle([Bury(lease, "gone") for lease in old])
    before = names(await every(queue.dead(run.id)))
    gone: list[str] = []
    read: list[str] = []

    async def between(rows: list[Any]) -> None:
        read.extend(names(rows))
        unread = [one for one in before if one not in (*gone, *read)][-1:]
        # The row after which the list continues is removed too, every other time.
        leave = {rows[0].id, rows[-1 if len(new) % 2 else 0].id, *unread}
        assert await queue.drop(run.id, list(leave)) == len(leave)
        gone.extend(leave)
        if new:
            await queue.settle([Bury(new.pop(), "gone too")])

    young = {lease.task_id for lease in new}
    found = names(await walked(lambda after: queue.dead(run.id, after=after), 4, between))
    assert len(set(found)) == len(found), "a letter came twice"
    stayed = set(before) - set(gone)
    assert stayed <= set(found), "a letter was lost when another went"
    assert set(found) - set(before) <= young


async def test_a_filter_and_a_place_go_together(queue: Queue) -> None:
    run = await start(queue, *(page(n, step=("list", "book")[n % 2]) for n in range(60)), max_attempts=9)
    leases = await claim_all(queue, run)
    numbered = {int((lease.task.url or "").rpartition("/")[2]): lease for lease in leases}
    await queue.settle([Bury(numbered[n], f"E{n % 3}: gone") for n in range(40)])
    where = DeadFilter(step="book", error="E1")
    meant = await every(queue.dead(run.id, where))
    assert len(meant) == 7
    assert names(await walked(lambda after: queue.dead(run.id, where, after=after), 2)) == names(meant)
    asked = {"step": "list", "states": [TaskState.DEAD, TaskState.LEASED]}
    listed = await every(queue.tasks(run.id, **asked))
    assert len(listed) == 30
    assert names(await walked(lambda after: queue.tasks(run.id, **asked, after=after), 7)) == names(listed)


async def test_what_waits_is_listed_once_while_claims_take_and_producers_add(queue: Queue) -> None:
    hosts = [f"h{n}.example" for n in range(3)]
    run = await start(queue, *(page(n, hosts[n % 3]) for n in range(150)), max_attempts=99)
    # A claim makes the broker deliver the tasks that it holds.
    await queue.settle([Retry(lease, "later") for lease in await claim_all(queue, run)])
    there = {status.id for status in await every(queue.tasks(run.id, states=[TaskState.PENDING]))}
    assert len(there) == 150
    taken: set[str] = set()

    async def between(rows: list[Any]) -> None:
        if len(taken) >= 35:
            return
        taken.update(lease.task_id for lease in await claim(queue, run, limit=7))
        await queue.enqueue(run.id, [page(f"{len(taken)}-{n}", hosts[n % 3]) for n in range(3)])

    found = names(
        await walked(lambda after: queue.tasks(run.id, states=[TaskState.PENDING], after=after), 20, between)
    )
    assert len(set(found)) == len(found), "a task came twice"
    assert there - taken <= set(found), "a task was lost when others were taken"


async def test_a_list_goes_on_behind_a_task_that_was_taken(queue: Queue) -> None:
    run = await start(queue, *pages(100), max_attempts=9)
    await queue.settle([Retry(lease, "later") for lease in await claim_all(queue, run)])
    behind = lists_of(queue, run)["pending"]
    whole = await every(behind(None))
    taken = {lease.task_id for lease in await claim(queue, run, limit=30)}
    for row in whole[::9]:
        rest = names(whole[whole.index(row) + 1 :])
        assert names(await every(behind(row.cursor))) == [one for one in rest if one not in taken]


async def test_leases_that_are_extended_stay_where_they_are(queue: Queue) -> None:
    run = await start(queue, *pages(30))
    leases = await claim_all(queue, run)

    async def between(rows: list[Any]) -> None:
        held = {row.id for row in rows}
        await queue.extend([lease for lease in leases if lease.task_id in held], lease=HOUR)

    found = names(await walked(lists_of(queue, run)["leased"], 4, between))
    assert sorted(found) == sorted(lease.task_id for lease in leases)


NO_PLACES = [
    "",
    "x",
    "-1",
    "1.2.3",
    "9" * 30,
    "pending",
    "pending.x",
    "leased.0.zz",
    "0.leased.zz",
    "0.dead.1.2",
]


async def test_no_text_at_all_upsets_a_list(queue: Queue) -> None:
    run = await start(queue, page())
    refused = 0
    for behind in lists_of(queue, run).values():
        for after in (*NO_PLACES, "\0", "completed.0.99999999999.99999999", "9.pending.0.0.0." + 32 * "0"):
            try:
                await every(behind(after))
            except InvalidSetting as error:
                assert "Begin without it" in str(error)
                refused += 1
    assert refused > 50


async def test_letters_are_found_by_their_ids_among_those_that_are_meant(queue: Queue) -> None:
    run = await start(queue, *pages(9), max_attempts=1)
    leases = await claim_all(queue, run)
    await queue.settle([Bury(lease, f"E{n % 2}") for n, lease in enumerate(leases)])
    old = names(await every(queue.dead(run.id)))
    asked = [old[4], old[1], old[1], "nothing", "0" * 32, old[8]]
    letters = await every(queue.dead(run.id, ids=asked))
    assert names(letters) == [old[1], old[4], old[8]]
    assert letters == [one for one in await every(queue.dead(run.id)) if one.id in asked]
    assert names(await every(queue.dead(run.id, ids=asked, after=letters[0].cursor))) == [old[4], old[8]]
    errors = {letter.error for letter in letters}
    for error in errors:
        meant = await every(queue.dead(run.id, DeadFilter(error=error), ids=asked))
        assert names(meant) == [letter.id for letter in letters if letter.error == error]
    assert await every(queue.dead(run.id, ids=[])) == []


@by_contract
async def test_tasks_that_are_named_are_listed_whole(queue: Queue) -> None:
    run = await start(queue, page())
    with pytest.raises(InvalidSetting, match="keys"):
        await every(queue.tasks(run.id, keys=["k"], after="0"))
