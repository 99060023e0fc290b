"""Tasks as they are now, page by page: all by their ids, or state by state, each by its own table."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.places import no_place, numbers_of, parts_of, place_of
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.moment import moment
from shoal.queue.sqlite.reading import Page
from shoal.queue.sqlite.rows import TaskRow
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json

PAGE = 10_000  # tasks that are read at a time, where many are asked for

# How many numbers a place has in the table of each state. What is completed has no table: it is found by id.
WIDTHS = {
    TaskState.PENDING: 2,
    TaskState.DELAYED: 2,
    TaskState.LEASED: 1,
    TaskState.DEAD: 1,
    TaskState.EXPIRED: 1,
    TaskState.DROPPED: 1,
}
BY_ID = "id"
_ID = re.compile(r"[0-9a-f]{32}")


class Spot(NamedTuple):
    """A place in the table of a state, or in the table of all tasks; empty before the first row."""

    table: str
    parts: tuple[Any, ...] = ()


class StatusRow(msgspec.Struct, array_like=True, frozen=True):
    """A task and where it is."""

    seq: int
    id: str
    state: TaskState
    worker: str | None
    since: int | None
    attempt: int
    items: int | None
    task: TaskRow

    def status(self, place: str) -> TaskStatus:
        return TaskStatus(
            id=self.id,
            step=self.task.step,
            state=self.state,
            url=self.task.url,
            task=self.task.task(),
            worker_id=self.worker,
            since=None if self.since is None else moment(self.since),
            attempt=self.attempt,
            items=self.items,
            place=place,
        )


def tables_of(states: Collection[TaskState] | None) -> list[str]:
    """Return the tables that hold tasks of these states, in the order in which they are read."""
    if states is None or set(states) == set(TaskState):
        return [BY_ID]
    return [str(state) for state in WIDTHS if state in states] + [BY_ID] * (TaskState.COMPLETED in states)


def spot_of(after: str | None, tables: Sequence[str]) -> Spot | None:
    """Return where a list of these tables goes on, None if there are none; raises InvalidSetting."""
    if after is None:
        return Spot(tables[0]) if tables else None
    table, *rest = after.split(".")
    if table not in tables:
        raise no_place(after)
    if table == BY_ID:
        if not _ID.fullmatch(parts_of(after, 2)[1]):
            raise no_place(after)
        return Spot(table, (rest[0],))
    return Spot(table, tuple(numbers_of(after, parts_of(after, 1 + WIDTHS[TaskState(table)])[1:])))


def tasks(
    store: Store,
    spot: Spot,
    size: int,
    run_id: str,
    step: str | None,
    states: Sequence[TaskState] | None,
) -> Page[Spot, TaskStatus]:
    """Return a page of tasks."""
    run, tables = runs.known(store, run_id).no, tables_of(states)
    marks = _marks(store, run, spot, step, size)
    # Where states are asked for, each has been found in its own table before what is completed is.
    among = [TaskState.COMPLETED] if spot.table == BY_ID != tables[0] else states
    found = _found(store, marks, step, among)
    rows = [found[seq].status(place_of(spot.table, *mark)) for *mark, seq in marks if seq in found]
    if marks:
        return Spot(spot.table, tuple(marks[-1][:-1])), rows
    following = tables[tables.index(spot.table) + 1 :]
    return (Spot(following[0]) if following else None), rows


def named(
    store: Store, run_id: str, ids: Collection[bytes], step: str | None, states: Sequence[TaskState] | None
) -> list[TaskStatus]:
    """Return the tasks with these ids."""
    run = runs.known(store, run_id).no
    marks = store.read("task_named", list[list[Any]], run=run, ids=as_json([one.hex() for one in ids]))
    found = _found(store, marks, step, states)
    return [found[seq].status(place_of(BY_ID, one)) for one, seq in marks if seq in found]


def entered(store: Store, run_id: str, ids: Collection[bytes]) -> set[str]:
    """Return the ids among these that are of tasks of the run."""
    run = runs.known(store, run_id).no
    marks = store.read("task_named", list[list[Any]], run=run, ids=as_json([one.hex() for one in ids]))
    return {one for one, _ in marks}


def _marks(store: Store, run: int, spot: Spot, step: str | None, size: int) -> list[list[Any]]:
    """Return the places of the next tasks in a table, each with the task's seq at its end."""
    if spot.table == BY_ID:
        after = spot.parts[0] if spot.parts else ""
        return store.read("task_after", list[list[Any]], run=run, after=after, limit=size)
    *first, after = spot.parts or [-1] * WIDTHS[TaskState(spot.table)]
    values = {"run": run, "after": after, "limit": size} | ({"first": first[0]} if first else {})
    if spot.table == TaskState.PENDING:
        values["step"] = step
    return store.read(f"task_after_{spot.table}", list[list[Any]], **values)


def _found(
    store: Store, marks: Sequence[Sequence[Any]], step: str | None, states: Sequence[TaskState] | None
) -> dict[int, StatusRow]:
    """Return those of the tasks that are meant, by seq."""
    seqs = as_json([mark[-1] for mark in marks])
    among = None if states is None else as_json(states)
    rows = store.read("task_read", list[StatusRow], seqs=seqs, step=step, states=among)
    return {row.seq: row for row in rows}
