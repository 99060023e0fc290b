"""Reports from Redis: the verbs that only read."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from shoal.core.errors import UnknownRun
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
from shoal.queue.contract import Evictions, QueueReports, StoreSize
from shoal.queue.cursors import check_keys
from shoal.queue.intake import ids_of
from shoal.queue.redis.read import stats_from
from shoal.queue.redis.task_list import RedisTaskList
from shoal.queue.redis.verbs.base import RedisQueueBase
from shoal.queue.redis.verbs.durability import durability, evictions, store_size
from shoal.queue.rules import known_ids


class RedisReports(RedisQueueBase, QueueReports):
    """Reads runs, counts, results, hosts and workers."""

    async def durability(self) -> Durability:
        return await durability(self._server, self._server.one_shard_per_node(self._shards))

    async def evictions(self) -> Evictions | None:
        return await evictions(self._server, self._server.one_shard_per_node(self._shards))

    async def size(self) -> StoreSize:
        return await store_size(self._server, self._server.one_shard_per_node(self._shards))

    async def runs(self) -> Sequence[Run]:
        return await self._runs.every()

    async def stats(self, run_id: str) -> Stats:
        calls = (self._call("stats", shard, run_id) for shard in range(self._shards))
        return stats_from(await asyncio.gather(*calls))

    async def items(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredItem]:
        async for item in self._reader.items(await self._number(run_id), step, after):
            yield item

    async def rejects(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredReject]:
        async for reject in self._reader.rejects(await self._number(run_id), step, after):
            yield reject

    async def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        number = await self._number(run_id)
        found = (
            self._reader.dead(number, where, after)
            if ids is None
            else self._reader.named_letters(number, known_ids(ids), where, after)
        )
        async for letter in found:
            yield letter

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        async for task in self._reader.expired(await self._number(run_id), after):
            yield task

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
        number = await self._number(run_id)
        if keys is None:
            found = RedisTaskList(self._server, self._shards, number).tasks(step, states, after)
        else:
            ids = ids_of(await self.run(run_id), step, keys, (await self.stats(run_id)).steps)
            listing = RedisTaskList(self._server, self._shards, number, ids)
            found = listing.named(ids, states, has_unlisted=await self._has_unlisted_tasks(number))
        async for status in found:
            yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await RedisTaskList(self._server, self._shards, await self._number(run_id)).entered(
            known_ids(ids)
        )

    async def _has_unlisted_tasks(self, number: int) -> bool:
        """Return whether tasks of a run may be where they cannot be listed, as in a broker."""
        return False

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        number = None if run_id is None else await self._number(run_id)
        async for status in self._reader.hosts(number, after):
            yield status

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        ids = [run.id for run in await self.runs()] if run_id is None else [run_id]
        now = await self._now()
        found: list[WorkerStatus] = []
        for one in ids:
            try:
                found += await self._reader.workers(await self._number(one), one, now)
            except UnknownRun:
                if run_id is not None:
                    raise
                # Purged since the runs were listed.
        return found
