"""Tasks as they are now, state by state and page by page."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.places import no_place, numbers_of, page_sizes, parts_of, place_of
from shoal.queue.postgres.server import Server
from shoal.queue.postgres.sql import QUERIES
from shoal.queue.postgres.wire import Row, task_from

PAGE = 500  # leases or letters
TASKS = 20_000  # of bundles and settlements, many of which are in one row
BUNDLED = (TaskState.PENDING, TaskState.DELAYED)
BLOCKS, MOST_BLOCKS = 64, 4096  # of table done: few at first, more where none is of this run

# Marks before the first row of a table. Tasks go through the states in this order, so that few are missed.
FIRST = {
    TaskState.PENDING: ["-1"] * 5,
    TaskState.DELAYED: ["-1", "0"],
    TaskState.LEASED: [""],
    TaskState.DEAD: ["0"],
    TaskState.EXPIRED: ["0"],
    TaskState.DROPPED: ["0"],
    TaskState.COMPLETED: ["0", "0"],  # a block of table done, and a row of it
}
HOW_LARGE = "SELECT pg_relation_size('shoal.done') / current_setting('block_size')::int"
_ID = re.compile(r"[0-9a-f]{32}")


class Spot(NamedTuple):
    """A task's place: its state, the mark of its row, and how many tasks of that row come behind it."""

    state: TaskState
    mark: Sequence[str]
    behind: int = 0

    @classmethod
    def read(cls, after: str) -> "Spot":
        """Read a place; raises InvalidSetting."""
        name = after.partition(".")[0]
        if name not in FIRST:
            raise no_place(after)
        state = TaskState(name)
        _, behind, *mark = parts_of(after, 2 + len(FIRST[state]))
        numbers = numbers_of(after, [behind] if state is TaskState.LEASED else [behind, *mark])
        if state is TaskState.LEASED and not _ID.fullmatch(mark[0]):
            raise no_place(after)
        if state is TaskState.COMPLETED and not (numbers[1] < 1 << 32 and numbers[2] < 1 << 16):
            raise no_place(after)
        return cls(state, mark, numbers[0])

    @property
    def before(self) -> Sequence[str]:
        """The mark to read behind: that of the row, or one before it where some of its tasks are left."""
        if not self.behind or self.state is TaskState.LEASED:
            return self.mark
        return [*self.mark[:-1], str(max(0, int(self.mark[-1]) - 1))]

    def is_passed(self, row: Row) -> bool:
        """Tell whether a task comes up to this place: those of its own row, that is."""
        return list(row["mark"]) == list(self.mark) and row["behind"] >= self.behind


class Listing:
    """The tasks of one run that are meant."""

    def __init__(self, server: Server, run_id: str, step: str | None, ids: Collection[bytes] | None) -> None:
        self._server, self._run_id, self._step = server, run_id, step
        self._ids = None if ids is None else list(ids)

    async def tasks(
        self, states: Collection[TaskState] | None, after: str | None = None
    ) -> AsyncIterator[TaskStatus]:
        """Stream those behind a place; raises InvalidSetting where it is none."""
        order = [state for state in FIRST if states is None or state in states]
        begin = None if after is None else Spot.read(after)
        if begin is not None and begin.state not in order:
            raise no_place(after or "")
        for state in order[order.index(begin.state) :] if begin else order:
            async for status in self._of(state, begin if begin and begin.state is state else None):
                yield status

    async def _of(self, state: TaskState, begin: Spot | None) -> AsyncIterator[TaskStatus]:
        pages = self._completed if state is TaskState.COMPLETED else self._waiting
        async for rows in pages(state, begin.before if begin else FIRST[state]):
            # Where a row has no task, none of it is meant.
            meant = [row for row in rows if row["task"] is not None and not (begin and begin.is_passed(row))]
            items = await self._uncounted(meant) if state is TaskState.COMPLETED else {}
            for row in meant:
                yield _status(row, state, items)

    async def _waiting(self, state: TaskState, mark: Sequence[str]) -> AsyncIterator[list[Row]]:
        async for rows in self._pages(state, mark, TASKS if state in BUNDLED else PAGE):
            yield rows

    async def _completed(self, state: TaskState, mark: Sequence[str]) -> AsyncIterator[list[Row]]:
        """Read table done some blocks at a time."""
        many, end, blocks = int(mark[0]), await self._server.value(HOW_LARGE), BLOCKS
        while many < end:
            is_empty, many = True, many + blocks
            async for rows in self._pages(state, mark, TASKS, many):
                is_empty = False
                yield rows
            blocks = min(2 * blocks, MOST_BLOCKS) if is_empty else BLOCKS
            mark = [str(many), "0"]

    async def _pages(
        self, state: TaskState, mark: Sequence[str], most: int, *more: int
    ) -> AsyncIterator[list[Row]]:
        query, sizes = QUERIES[f"tasks_{state}"], page_sizes(most)
        while rows := await self._server.fetch(
            sized(query, size := next(sizes)), self._run_id, mark, size, self._step, self._ids, *more
        ):
            yield rows
            mark = rows[-1]["mark"]

    async def _uncounted(self, rows: Sequence[Row]) -> dict[bytes, int]:
        """Return the items of tasks whose settlement did not count them: an older Shoal made it."""
        ids = [row["task"] for row in rows if row["items"] is None]
        found = await self._server.fetch(QUERIES["items_of"], self._run_id, ids) if ids else []
        return {row["task"]: row["items"] for row in found}


def sized(query: str, size: int) -> str:
    """Return a query for pages of this size: for a limit that is not known, PostgreSQL sorts whole tables."""
    return query.replace("LIMIT $3", f"LIMIT {size}")


def _status(row: Row, state: TaskState, items: dict[bytes, int]) -> TaskStatus:
    counted = None
    if state is TaskState.COMPLETED:
        counted = items.get(row["task"], 0) if row["items"] is None else row["items"]
    return TaskStatus(
        id=row["task"].hex(),
        step=row["step"],
        state=state,
        url=row["url"],
        task=task_from(row),
        worker_id=row["worker"],
        since=row["since"],
        attempt=row["attempt"],
        items=counted,
        place=place_of(state, row["behind"], *row["mark"]),
    )
