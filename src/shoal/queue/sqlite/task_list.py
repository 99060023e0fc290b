"""List tasks with their state, page by page: all by id, or by state, each state from its own table."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.encoding import moment
from shoal.queue.paging import cursor_of, invalid_cursor, numbers_of, parts_of
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import Page, Store, TaskRecord, as_json

PAGE = 10_000  # tasks per page of a long list

# The number of parts of a cursor in the table of each state. Completed tasks have no table: they are found
# by id.
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


class SqliteCursor(NamedTuple):
    """A position in the table of a state, or in the table of all tasks; empty before the first row."""

    table: str
    parts: tuple[Any, ...] = ()


class StatusRow(msgspec.Struct, array_like=True, frozen=True):
    """A task and its state."""

    seq: int
    id: str
    state: TaskState
    worker: str | None
    since: int | None
    attempt: int
    items: int | None
    task: TaskRecord

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
            cursor=place,
        )


def tables_of(states: Collection[TaskState] | None) -> list[str]:
    """Return the tables that hold tasks of these states, in reading order."""
    if states is None or set(states) == set(TaskState):
        return [BY_ID]
    return [str(state) for state in WIDTHS if state in states] + [BY_ID] * (TaskState.COMPLETED in states)


def read_cursor(after: str | None, tables: Sequence[str]) -> SqliteCursor | None:
    """Return where a list of these tables continues, None if there are no tables; raises InvalidSetting."""
    if after is None:
        return SqliteCursor(tables[0]) if tables else None
    table, *rest = after.split(".")
    if table not in tables:
        raise invalid_cursor(after)
    if table == BY_ID:
        if not _ID.fullmatch(parts_of(after, 2)[1]):
            raise invalid_cursor(after)
        return SqliteCursor(table, (rest[0],))
    return SqliteCursor(table, tuple(numbers_of(after, parts_of(after, 1 + WIDTHS[TaskState(table)])[1:])))


def tasks(
    store: Store,
    cursor: SqliteCursor,
    size: int,
    run_id: str,
    step: str | None,
    states: Sequence[TaskState] | None,
) -> Page[SqliteCursor, TaskStatus]:
    """Return a page of tasks."""
    run, tables = runs.get_row(store, run_id).no, tables_of(states)
    positions = _next_positions(store, run, cursor, step, size)
    # With a filter by state, the other states were already found in their own tables.
    among = [TaskState.COMPLETED] if cursor.table == BY_ID != tables[0] else states
    found = _read_tasks(store, positions, step, among)
    rows = [
        found[seq].status(cursor_of(cursor.table, *position)) for *position, seq in positions if seq in found
    ]
    if positions:
        return SqliteCursor(cursor.table, tuple(positions[-1][:-1])), rows
    following = tables[tables.index(cursor.table) + 1 :]
    return (SqliteCursor(following[0]) if following else None), rows


def tasks_by_id(
    store: Store, run_id: str, ids: Collection[bytes], step: str | None, states: Sequence[TaskState] | None
) -> list[TaskStatus]:
    """Return the tasks with these ids."""
    run = runs.get_row(store, run_id).no
    positions = store.read("task_named", list[list[Any]], run=run, ids=as_json([one.hex() for one in ids]))
    found = _read_tasks(store, positions, step, states)
    return [found[seq].status(cursor_of(BY_ID, one)) for one, seq in positions if seq in found]


def entered(store: Store, run_id: str, ids: Collection[bytes]) -> set[str]:
    """Return the ids among these that are of tasks of the run."""
    run = runs.get_row(store, run_id).no
    positions = store.read("task_named", list[list[Any]], run=run, ids=as_json([one.hex() for one in ids]))
    return {one for one, _ in positions}


def _next_positions(
    store: Store, run: int, cursor: SqliteCursor, step: str | None, size: int
) -> list[list[Any]]:
    """Return the positions of the next tasks in a table, each followed by the task's seq."""
    if cursor.table == BY_ID:
        after = cursor.parts[0] if cursor.parts else ""
        return store.read("task_after", list[list[Any]], run=run, after=after, limit=size)
    *first, after = cursor.parts or [-1] * WIDTHS[TaskState(cursor.table)]
    values = {"run": run, "after": after, "limit": size} | ({"first": first[0]} if first else {})
    if cursor.table == TaskState.PENDING:
        values["step"] = step
    return store.read(f"task_after_{cursor.table}", list[list[Any]], **values)


def _read_tasks(
    store: Store, positions: Sequence[Sequence[Any]], step: str | None, states: Sequence[TaskState] | None
) -> dict[int, StatusRow]:
    """Return the tasks that match the filters, by seq."""
    seqs = as_json([position[-1] for position in positions])
    among = None if states is None else as_json(states)
    rows = store.read("task_read", list[StatusRow], seqs=seqs, step=step, states=among)
    return {row.seq: row for row in rows}
