"""Reports from a PostgreSQL database: the verbs that only read."""

from collections.abc import AsyncIterator, Collection, Sequence

from shoal.core.model import (
    DeadFilter,
    DeadLetter,
    Durability,
    ExpiredTask,
    HostStatus,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.contract import QueueReports, StoreSize
from shoal.queue.cursors import check_keys
from shoal.queue.intake import ids_of
from shoal.queue.postgres import read, sql
from shoal.queue.postgres.task_list import PostgresTaskList
from shoal.queue.postgres.verbs.base import PostgresQueueBase
from shoal.queue.rules import known_ids


class PostgresReports(PostgresQueueBase, QueueReports):
    """Reads runs, counts, results, hosts and workers."""

    async def check_for_workers(self) -> None:
        self._server.check_for_workers()

    async def durability(self) -> Durability:
        for setting in ("fsync", "full_page_writes"):
            if not await self._server.value("SELECT current_setting($1)::bool", setting):
                cost = "a power cut can cost the whole database; turn it on."
                return Durability(False, f"The server has {setting} off, so {cost}")
        if await self._server.value("SELECT current_setting('synchronous_commit')") == "off":
            return Durability(
                False, "The server has synchronous_commit off, so a crash can cost the last moments."
            )
        return Durability(True, "Data is on the server's disk before each reply, so a crash costs nothing.")

    async def size(self) -> StoreSize:
        used = await self._server.value(sql.QUERIES["store_size"], self._server.schema.strip('"'))
        return StoreSize(int(used), f"the tables and indexes of schema {self._server.schema}")

    async def stats(self, run_id: str) -> Stats:
        return await read.stats(self._server, await self.run(run_id))

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return read.items(self._server, self.run(run_id), step, after)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return read.rejects(self._server, self.run(run_id), step, after)

    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        if ids is not None:
            return read.dead_letters_by_id(self._server, self.run(run_id), known_ids(ids), where, after)
        return read.dead(self._server, self.run(run_id), where, after)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return read.expired(self._server, self.run(run_id), after)

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
        run = await self.run(run_id)
        ids = None if keys is None else ids_of(run, step, keys, (await self.stats(run_id)).steps)
        async for status in PostgresTaskList(self._server, run_id, step, ids).tasks(states, after):
            yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await read.entered(self._server, self.run(run_id), known_ids(ids))

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return read.hosts(self._server, None if run_id is None else self.run(run_id), after)

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        run = None if run_id is None else await self.run(run_id)
        return await read.workers(self._server, run)
