"""Reports from a SQLite file: the verbs that only read."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from shoal.core.model import (
    DeadFilter,
    DeadLetter,
    Durability,
    ExpiredTask,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.contract import QueueReports, StoreSize
from shoal.queue.cursors import check_keys, numbers_of, page_sizes, parts_of
from shoal.queue.intake import ids_of
from shoal.queue.rules import known_ids
from shoal.queue.sqlite import read, runs, task_list
from shoal.queue.sqlite.read import PAGE, Page
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.verbs.base import SqliteQueueBase

P = ParamSpec("P")
T = TypeVar("T")
Position = TypeVar("Position")


class SqliteReports(SqliteQueueBase, QueueReports):
    """Reads runs, counts, results, hosts and workers."""

    async def durability(self) -> Durability:
        if self._synchronous == "full":
            return Durability(True, "Data is on the disk before each reply, so a crash costs nothing.")
        return Durability(
            False,
            "A crash of a process costs nothing; a power cut can cost the last moments. "
            "To prevent that, add ?synchronous=full to the address of the queue: sqlite:///FILE?synchronous=full",
        )

    async def size(self) -> StoreSize:
        return await self._reader.call(read.store_size)

    async def runs(self) -> Sequence[Run]:
        return await self._reader.call(runs.list_all)

    async def stats(self, run_id: str) -> Stats:
        return await self._reader.call(read.stats, run_id)

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return self._stream(after, PAGE, read.items, run_id, step)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return self._stream(after, PAGE, read.rejects, run_id, step)

    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        if ids is not None:
            return self._stream(
                _read_number(after), PAGE, read.dead_letters_by_id, run_id, where, known_ids(ids)
            )
        return self._stream(_read_number(after), PAGE, read.dead_letters, run_id, where)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return self._stream(_read_number(after), PAGE, read.expired, run_id)

    async def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        check_keys(keys, after)
        run, wanted = await self.run(run_id), None if states is None else list(states)
        if keys is not None:
            ids = ids_of(run, step, keys, (await self.stats(run_id)).steps)
            for status in await self._reader.call(task_list.tasks_by_id, run_id, ids, step, wanted):
                yield status
        elif cursor := task_list.read_cursor(after, task_list.tables_of(wanted)):
            async for status in self._stream(cursor, task_list.PAGE, task_list.tasks, run_id, step, wanted):
                yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await self._reader.call(task_list.entered, run_id, known_ids(ids))

    async def _stream(
        self,
        after: Position,
        max_size: int,
        page: Callable[Concatenate[Store, Position, int, P], Page[Position, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> AsyncIterator[T]:
        """Read page after page, each after the last one."""
        position: Position | None = after
        sizes = page_sizes(max_size)
        while position is not None:
            position, rows = await self._reader.call(page, position, next(sizes), *args, **kwargs)
            for row in rows:
                yield row

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return self._stream(after or "", PAGE, read.hosts, run_id)

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        return await self._reader.call(read.workers, run_id)


def _read_number(after: str | None) -> int:
    return 0 if after is None else numbers_of(after, parts_of(after, 1))[0]
