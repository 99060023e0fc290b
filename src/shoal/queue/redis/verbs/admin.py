"""Administration of Redis: runs, dead letters and hosts."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

from shoal.core.failures import error_text
from shoal.core.model import ZERO, DeadFilter, Run, RunSettings, RunState
from shoal.queue.contract import EditFate, LetterEdit, QueueAdmin, RunLimits
from shoal.queue.redis.settle import edit_letter
from shoal.queue.redis.verbs.base import RedisQueueBase
from shoal.queue.redis.wire import micros, moment, shard_of_host
from shoal.queue.rules import check_delay, check_run, free_run_id


class RedisAdmin(RedisQueueBase, QueueAdmin):
    """Starts and changes runs, and handles dead letters and hosts."""

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        if run_id is None:
            run_id = await free_run_id(moment(await self._now()), self._runs.has)
        self._intakes.pop(run_id, None)
        return await self._runs.start(scraper, settings, run_id)

    async def pause(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._runs.steer(run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.CANCELLED)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        return await self._runs.change(run_id, limits)

    async def purge(self, run_id: str) -> None:
        self._intakes.pop(run_id, None)
        await self._runs.purge(run_id)

    async def forget(self, scraper: str) -> int:
        return sum(await asyncio.gather(*(self._forget(shard, scraper) for shard in range(self._shards))))

    async def _forget(self, shard: int, scraper: str) -> int:
        count, numbers = await self._server.call("forget_known", shard, scraper)
        for number in numbers:
            while await self._server.call("clear_known", shard, number):
                pass
        return int(count)

    async def replay(
        self,
        run_id: str,
        ids: Sequence[str] | None = None,
        *,
        where: DeadFilter = DeadFilter(),
        delay: timedelta = ZERO,
    ) -> int:
        check_delay(delay)
        return await self._apply_to_dead(run_id, "replay", ids, where, micros(delay))

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_dead(run_id, "drop", ids, where)

    async def _apply_to_dead(
        self, run_id: str, verb: str, ids: Sequence[str] | None, where: DeadFilter, delay: int = 0
    ) -> int:
        """Replay or drop dead letters, a page at a time."""
        number, count = await self._number(run_id), 0
        for shard in range(self._shards):
            async for page in self._reader.select_dead(shard, number, ids, where):
                packed = b"".join(map(bytes.fromhex, page))
                count += int(await self._once("dead", shard, run_id, verb, packed, delay))
        return count

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        number = await self._number(run_id)
        pairs = zip(edits, (await self._intake(run_id, refresh=True)).edited(edits), strict=True)
        return [await edit_letter(self._once, self._reader, number, run_id, *pair) for pair in pairs]

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "pause", micros(duration))

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "slow", micros(delay))
