"""List tasks with their state, state by state and page by page."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.paging import cursor_of, invalid_cursor, numbers_of, page_sizes, parts_of
from shoal.queue.postgres.reports import Row, task_from
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES

PAGE = 500  # leases or dead letters
TASKS = 20_000  # from bundles and settlements, of which one row holds many
BUNDLED = (TaskState.PENDING, TaskState.DELAYED)
BLOCKS, MAX_BLOCKS = 64, 4096  # of table done: few at first, more while none is of this run

# Positions before the first row of a table. Tasks pass through the states in this order, so few are missed.
FIRST = {
    TaskState.PENDING: ["-1"] * 5,
    TaskState.DELAYED: ["-1", "0"],
    TaskState.LEASED: [""],
    TaskState.DEAD: ["0"],
    TaskState.EXPIRED: ["0"],
    TaskState.DROPPED: ["0"],
    TaskState.COMPLETED: ["0", "0"],  # a block of table done, and a row of it
}
BLOCK_COUNT = "SELECT pg_relation_size('shoal.done') / current_setting('block_size')::int"
_ID = re.compile(r"[0-9a-f]{32}")


class PostgresCursor(NamedTuple):
    """A task's position: its state, the mark of its row, and the number of tasks after it in that row."""

    state: TaskState
    mark: Sequence[str]
    behind: int = 0

    @classmethod
    def read(cls, after: str) -> "PostgresCursor":
        """Parse a cursor; raises InvalidSetting."""
        name = after.partition(".")[0]
        if name not in FIRST:
            raise invalid_cursor(after)
        state = TaskState(name)
        _, behind, *mark = parts_of(after, 2 + len(FIRST[state]))
        numbers = numbers_of(after, [behind] if state is TaskState.LEASED else [behind, *mark])
        if state is TaskState.LEASED and not _ID.fullmatch(mark[0]):
            raise invalid_cursor(after)
        if state is TaskState.COMPLETED and not (numbers[1] < 1 << 32 and numbers[2] < 1 << 16):
            raise invalid_cursor(after)
        return cls(state, mark, numbers[0])

    @property
    def before(self) -> Sequence[str]:
        """The mark to read after: that of the row, or the one before it if some of its tasks are left."""
        if not self.behind or self.state is TaskState.LEASED:
            return self.mark
        return [*self.mark[:-1], str(max(0, int(self.mark[-1]) - 1))]

    def is_passed(self, row: Row) -> bool:
        """Tell whether a task of the cursor's own row is at or before the cursor."""
        return list(row["mark"]) == list(self.mark) and row["behind"] >= self.behind


class PostgresTaskList:
    """The tasks of one run that match a step and ids."""

    def __init__(
        self, server: PostgresServer, run_id: str, step: str | None, ids: Collection[bytes] | None
    ) -> None:
        self._server, self._run_id, self._step = server, run_id, step
        self._ids = None if ids is None else list(ids)

    async def tasks(
        self, states: Collection[TaskState] | None, after: str | None = None
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks after a cursor; raises InvalidSetting for an invalid one."""
        order = [state for state in FIRST if states is None or state in states]
        begin = None if after is None else PostgresCursor.read(after)
        if begin is not None and begin.state not in order:
            raise invalid_cursor(after or "")
        for state in order[order.index(begin.state) :] if begin else order:
            async for status in self._tasks_in(state, begin if begin and begin.state is state else None):
                yield status

    async def _tasks_in(self, state: TaskState, begin: PostgresCursor | None) -> AsyncIterator[TaskStatus]:
        pages = self._list_completed if state is TaskState.COMPLETED else self._list_pages
        async for rows in pages(state, begin.before if begin else FIRST[state]):
            # A row without a task holds none that matches.
            matching = [
                row for row in rows if row["task"] is not None and not (begin and begin.is_passed(row))
            ]
            for row in matching:
                yield _status(row, state)

    async def _list_pages(self, state: TaskState, mark: Sequence[str]) -> AsyncIterator[list[Row]]:
        async for rows in self._pages(state, mark, TASKS if state in BUNDLED else PAGE):
            yield rows

    async def _list_completed(self, state: TaskState, mark: Sequence[str]) -> AsyncIterator[list[Row]]:
        """Read table done a few blocks at a time."""
        block, end, blocks = int(mark[0]), await self._server.value(BLOCK_COUNT), BLOCKS
        while block < end:
            is_empty, block = True, block + blocks
            async for rows in self._pages(state, mark, TASKS, block):
                is_empty = False
                yield rows
            blocks = min(2 * blocks, MAX_BLOCKS) if is_empty else BLOCKS
            mark = [str(block), "0"]

    async def _pages(
        self, state: TaskState, mark: Sequence[str], max_size: int, *more: int
    ) -> AsyncIterator[list[Row]]:
        sizes = page_sizes(max_size)
        while rows := await self._server.fetch(
            tasks_query(state, size := next(sizes)), self._run_id, mark, size, self._step, self._ids, *more
        ):
            yield rows
            mark = rows[-1]["mark"]


def tasks_query(state: TaskState, size: int) -> str:
    """Return the query of a page, with its size as a literal: else PostgreSQL sorts whole tables."""
    page = QUERIES[f"page_{state}"].replace("LIMIT $3", f"LIMIT {size}")
    return QUERIES["tasks"].replace("state_page\n", f"{page}\n")


def _status(row: Row, state: TaskState) -> TaskStatus:
    return TaskStatus(
        id=row["task"].hex(),
        step=row["step"],
        state=state,
        url=row["url"],
        task=task_from(row),
        worker_id=row["worker"],
        since=row["since"],
        attempt=row["attempt"],
        items=row["items"] if state is TaskState.COMPLETED else None,
        cursor=cursor_of(state, row["behind"], *row["mark"]),
    )
