"""Tasks as they are now, state by state and page by page."""

from collections.abc import AsyncIterator, Collection, Sequence

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.postgres.server import Server
from shoal.queue.postgres.sql import QUERIES
from shoal.queue.postgres.wire import Row, task_from

PAGE = 500  # bundles, leases or letters
TASKS = 20_000  # completed tasks of a page, which looks through the items of the run
BLOCKS = 64  # of table done

# In the order in which tasks go through the states, so that few pass by unseen.
ORDER = (
    *(TaskState.PENDING, TaskState.DELAYED, TaskState.LEASED),
    *(TaskState.DEAD, TaskState.EXPIRED, TaskState.DROPPED, TaskState.COMPLETED),
)
# Marks before the first row of a table.
FIRST = {
    TaskState.PENDING: ["-1"] * 5,
    TaskState.DELAYED: ["-infinity", "0"],
    TaskState.LEASED: ["\\x"],
    TaskState.DEAD: ["0"],
    TaskState.EXPIRED: ["0"],
    TaskState.DROPPED: ["0"],
}
HOW_LARGE = "SELECT pg_relation_size('shoal.done') / current_setting('block_size')::int"


class Listing:
    """The tasks of one run that are meant."""

    def __init__(self, server: Server, run_id: str, step: str | None, ids: Collection[bytes] | None) -> None:
        self._server, self._run_id, self._step = server, run_id, step
        self._ids = None if ids is None else list(ids)

    async def tasks(self, states: Collection[TaskState] | None) -> AsyncIterator[TaskStatus]:
        """Stream them."""
        for state in ORDER:
            if states is None or state in states:
                async for row in self._rows(state):
                    if row["task"] is not None:  # else none of its row is meant
                        yield _status(row, state)

    async def _rows(self, state: TaskState) -> AsyncIterator[Row]:
        if state is not TaskState.COMPLETED:
            async for row in self._pages(state, FIRST[state], PAGE):
                yield row
            return
        for block in range(0, await self._server.value(HOW_LARGE), BLOCKS):
            async for row in self._pages(state, [f"({block},0)"], TASKS, f"({block + BLOCKS},0)"):
                yield row

    async def _pages(
        self, state: TaskState, mark: Sequence[str], size: int, *more: str
    ) -> AsyncIterator[Row]:
        query = QUERIES[f"tasks_{state}"]
        while rows := await self._server.fetch(query, self._run_id, mark, size, self._step, self._ids, *more):
            for row in rows:
                yield row
            mark = rows[-1]["mark"]


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
    )
