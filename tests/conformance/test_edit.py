"""Dead letters can be edited: the task is replaced atomically, and its key, host and counts follow."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.core.errors import InvalidTask, UnknownRun
from shoal.core.model import MINUTE, SECOND, Bury, DeadLetter, Done, Run, Task, TaskState
from shoal.core.request_options import RequestOptions
from shoal.queue.contract import EditFate, LetterEdit, Queue
from shoal.queue.intake import task_id
from tests.conformance.backends import by_contract
from tests.conformance.helpers import claim_all, claim_one, every, page, pages, start, the_dead, url

OTHER = "b.example"


async def buried(queue: Queue, *tasks: Task, **settings: Any) -> tuple[Run, list[DeadLetter]]:
    """Start a run whose tasks are all dead letters; return them in the order of the tasks."""
    run = await start(queue, *tasks, **settings)
    leases = await claim_all(queue, run)
    await queue.settle([Bury(lease, "gone") for lease in leases])
    by_id = {letter.id: letter for letter in await the_dead(queue, run)}
    return run, [by_id[task_id(run, task)] for task in tasks]


def changed(letter: DeadLetter, **fields: Any) -> LetterEdit:
    return LetterEdit(letter=letter, task=replace(letter.task, **fields), by="ann", note="edited: url")


async def edit(queue: Queue, run: Run, edits: Sequence[LetterEdit]) -> list[str]:
    return [fate.value for fate in await queue.edit(run.id, edits)]


async def test_an_edited_letter_has_the_new_task_and_is_handed_out_with_it_after_a_replay(
    queue: Queue,
) -> None:
    run, (letter,) = await buried(queue, page(step="old", partition="ca", depth=3, ttl=MINUTE))
    new = {
        "url": "HTTP://B.example:80/x?b=1#top",
        "step": "new",
        "payload": {"n": [1]},
        "priority": 7,
        "request": RequestOptions(post=b"\0body", headers={"authorization": "x"}),
    }
    assert await edit(queue, run, [changed(letter, **new)]) == ["edited"]
    (edited,) = await the_dead(queue, run)
    assert edited.task == replace(letter.task, **new | {"url": "http://b.example/x?b=1"})
    assert edited.id == task_id(run, edited.task) != letter.id
    assert (edited.attempts, edited.error, edited.buried_at) == (1, "gone", letter.buried_at)
    assert await queue.replay(run.id, [edited.id]) == 1
    lease = await claim_one(queue, run, steps=["new"], partitions=["ca"])
    assert (lease.task, lease.task_id, lease.attempt) == (edited.task, edited.id, 1)
    assert await queue.settle([Done(lease, items=[{"a": 1}])]) != []
    (item,) = await every(queue.items(run.id))
    assert (item.url, item.step, item.task_id) == ("http://b.example/x?b=1", "new", edited.id)
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.dead, stats.tasks) == (1, 0, 1)
    assert {step for step, counts in stats.steps.items() if counts.tasks} == {"new"}


async def test_an_edit_is_an_entry_of_attempt_zero_in_the_history_and_stays_there(queue: Queue) -> None:
    run, (letter,) = await buried(queue, page())
    await edit(queue, run, [changed(letter, url=url(2))])
    (once,) = await the_dead(queue, run)
    await edit(queue, run, [changed(once, payload={"a": 1})])
    await queue.replay(run.id)
    await queue.settle([Bury(await claim_one(queue, run, "w2"), "again")])
    (letter,) = await the_dead(queue, run)
    assert [(one.attempt, one.worker_id, one.error) for one in letter.history] == [
        (1, "worker-1", "gone"),
        (0, "ann", "edited: url"),
        (0, "ann", "edited: url"),
        (1, "w2", "again"),
    ]
    assert [one.worker_id for one in await queue.workers(run.id)] == []


async def test_the_new_key_is_taken_and_the_old_one_is_free(queue: Queue) -> None:
    run, (letter,) = await buried(queue, page(1))
    await edit(queue, run, [changed(letter, url=url(2, OTHER))])
    report = await queue.enqueue(run.id, [page(2, OTHER), page(1)])
    assert (report.added, report.duplicate) == (1, 1)
    assert (await claim_one(queue, run)).task.url == url(1)
    found = {one.state async for one in queue.tasks(run.id, keys=[url(2, OTHER)])}
    assert found == {TaskState.DEAD}


async def test_a_key_that_the_run_has_in_any_state_is_refused_as_a_duplicate(queue: Queue) -> None:
    run, (letter, dead, dropped, done, pending) = await buried(queue, page(), *pages(4, OTHER))
    await queue.drop(run.id, [dropped.id])
    await queue.replay(run.id, [done.id])
    await queue.settle([Done(await claim_one(queue, run))])
    await queue.replay(run.id, [pending.id])
    before = await queue.stats(run.id)
    assert (before.dead, before.dropped, before.completed, before.pending) == (2, 1, 1, 1)
    for other in (dead, dropped, done, pending):
        assert await edit(queue, run, [changed(letter, url=other.task.url)]) == ["duplicate"]
    assert letter in await the_dead(queue, run)
    assert await queue.stats(run.id) == before
    assert await edit(queue, run, [changed(letter, url=url(9, OTHER))]) == ["edited"]


async def test_of_two_letters_that_become_the_same_task_the_first_is_edited(queue: Queue) -> None:
    run, letters = await buried(queue, *pages(2))
    assert await edit(queue, run, [changed(one, url=url("x", OTHER)) for one in letters]) == [
        "edited",
        "duplicate",
    ]
    assert sorted(one.task.url or "" for one in await the_dead(queue, run)) == [url(1), url("x", OTHER)]


async def test_a_letter_that_has_changed_since_it_was_read_is_left_alone(queue: Queue) -> None:
    run, (one, two, three, four) = await buried(queue, *pages(4))
    await edit(queue, run, [changed(one, payload={"first": 1})])
    await queue.replay(run.id, [two.id])
    await queue.drop(run.id, [three.id])
    await queue.replay(run.id, [four.id])
    for lease in await claim_all(queue, run):
        await queue.settle([Bury(lease, "gone") if lease.task_id == four.id else Done(lease)])
    late = [changed(letter, url=url("late", OTHER)) for letter in (one, two, three, four)]
    assert await edit(queue, run, late) == ["changed"] * 4
    assert {letter.task.url for letter in await the_dead(queue, run)} == {one.task.url, four.task.url}
    assert (await queue.enqueue(run.id, [page("late", OTHER)])).added == 1


async def test_of_edits_replays_and_drops_at_once_one_wins(queue: Queue) -> None:
    run, letters = await buried(queue, *pages(8))
    for number, letter in enumerate(letters):
        new = f"http://{'a' if number % 2 else number}.example/{number}"  # at its host, or at another one
        fates, replayed, dropped, others = await asyncio.gather(
            edit(queue, run, [changed(letter, url=f"{new}/a")]),
            queue.replay(run.id, [letter.id]),
            queue.drop(run.id, [letter.id]),
            edit(queue, run, [changed(letter, url=f"{new}/b")]),
        )
        assert (fates + others).count("edited") + replayed + dropped == 1
    stats = await queue.stats(run.id)
    assert stats.dead + stats.pending + stats.dropped == stats.tasks == 8
    assert len(await claim_all(queue, run)) == stats.pending
    assert len(await the_dead(queue, run)) == stats.dead


async def test_an_edited_letter_keeps_its_place_in_the_list(queue: Queue) -> None:
    run, letters = await buried(queue, *pages(3))
    order = [letter.task.url for letter in await the_dead(queue, run)]
    middle = next(one for one in letters if one.task.url == order[1])
    await edit(queue, run, [changed(middle, priority=9, payload={"a": 1})])
    assert [letter.task.url for letter in await the_dead(queue, run)] == order


async def test_the_host_limits_of_the_new_url_apply(queue: Queue) -> None:
    run, (letter,) = await buried(queue, page(1))
    await queue.pause_host(OTHER, MINUTE)
    await edit(queue, run, [changed(letter, url=url(1, OTHER))])
    await queue.replay(run.id)
    grant = await queue.claim("w", run_id=run.id)
    assert grant.leases == [] and not grant.drained
    assert grant.next_due is not None and grant.next_due > 50 * SECOND
    counts = {status.host: status.counts.tasks async for status in queue.hosts(run.id)}
    assert (counts.get("a.example", 0), counts[OTHER]) == (0, 1)


async def test_a_letter_without_a_url_can_get_one_and_lose_it_again(queue: Queue) -> None:
    run, (letter,) = await buried(queue, Task(payload={"text": "htp:/x"}))
    assert await edit(queue, run, [changed(letter, url=url(5))]) == ["edited"]
    (letter,) = await the_dead(queue, run)
    assert letter.task.url == url(5)
    assert await edit(queue, run, [changed(letter, url=None)]) == ["edited"]
    await queue.replay(run.id)
    assert (await claim_one(queue, run)).task.payload == {"text": "htp:/x"}


async def test_a_key_of_its_own_stays_when_the_url_changes(queue: Queue) -> None:
    run, (letter,) = await buried(queue, page(1, key="mine"))
    assert await edit(queue, run, [changed(letter, url=url(1, OTHER))]) == ["edited"]
    (edited,) = await the_dead(queue, run)
    assert (edited.id, edited.task.key, edited.task.url) == (letter.id, "mine", url(1, OTHER))
    assert (await queue.enqueue(run.id, [page(7, key="mine")])).duplicate == 1


@by_contract
async def test_an_invalid_task_is_refused_before_anything_is_changed(queue: Queue) -> None:
    run, (one, two) = await buried(queue, *pages(2))
    for wrong in ({"url": "ftp://x"}, {"priority": 10}, {"step": ""}, {"payload": {"a": "\0"}}):
        with pytest.raises(InvalidTask):
            await queue.edit(run.id, [changed(one, url=url(9)), changed(two, **wrong)])
    assert {letter.id for letter in await the_dead(queue, run)} == {one.id, two.id}


@by_contract
async def test_edits_of_an_unknown_run_are_refused(queue: Queue) -> None:
    _, (letter,) = await buried(queue, page())
    with pytest.raises(UnknownRun):
        await queue.edit("nowhere", [changed(letter, url=url(2))])
    with pytest.raises(UnknownRun):
        await queue.edit("nowhere", [])


async def test_many_letters_are_edited_in_one_call(queue: Queue) -> None:
    run, letters = await buried(queue, *pages(120), per_host=2000)
    edits = [changed(letter, url=f"http://{OTHER}/{n}") for n, letter in enumerate(letters)]
    assert set(await queue.edit(run.id, edits)) == {EditFate.EDITED}
    assert {letter.task.url for letter in await the_dead(queue, run)} == {one.task.url for one in edits}
    assert await queue.replay(run.id) == 120
    assert (await queue.stats(run.id)).pending == 120


async def test_of_two_edits_of_one_letter_in_one_call_the_first_is_applied(queue: Queue) -> None:
    run, (letter,) = await buried(queue, page())
    edits = [changed(letter, payload={"n": 1}), changed(letter, payload={"n": 2})]
    assert await edit(queue, run, edits) == ["edited", "changed"]
    (edited,) = await the_dead(queue, run)
    assert (edited.id, edited.task.payload) == (letter.id, {"n": 1})
