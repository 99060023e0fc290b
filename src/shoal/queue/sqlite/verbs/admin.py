"""Administration of a SQLite file: runs, dead letters and hosts."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Unpack

from shoal.core.failures import error_text
from shoal.core.model import ZERO, DeadFilter, Run, RunSettings, RunState
from shoal.queue.contract import EditFate, LetterEdit, QueueAdmin, RunLimits
from shoal.queue.rules import check_delay, check_run
from shoal.queue.sqlite import admin, runs
from shoal.queue.sqlite.admin import BATCH as LETTER_BATCH
from shoal.queue.sqlite.admin import LetterAction
from shoal.queue.sqlite.edit import edit
from shoal.queue.sqlite.verbs.base import SqliteQueueBase
from shoal.queue.sqlite.work import known

MAX_PURGE_PAUSE = 0.1  # seconds between two batches of a purge


class SqliteAdmin(SqliteQueueBase, QueueAdmin):
    """Starts and changes runs, and handles dead letters and hosts."""

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        self._intakes.pop(run_id or "", None)
        return await self._writer.call(runs.start, scraper, settings, run_id)

    async def pause(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.CANCELLED)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        return await self._writer.call(runs.change, run_id, limits)

    async def purge(self, run_id: str) -> None:
        self._intakes.pop(run_id, None)
        await self._writer.call(runs.purge, run_id)
        began = time.monotonic()
        while await self._writer.call(runs.clear_purged):
            # SQLite does not serve its writers in turn: without a pause, workers would wait for many batches.
            await asyncio.sleep(min(time.monotonic() - began, MAX_PURGE_PAUSE))
            began = time.monotonic()

    async def forget(self, scraper: str) -> int:
        count, after = 0, known.FIRST
        while page := await self._writer.call(known.forget, scraper, after):
            count, after = count + page[0], page[1]
        return count

    async def replay(
        self,
        run_id: str,
        ids: Sequence[str] | None = None,
        *,
        where: DeadFilter = DeadFilter(),
        delay: timedelta = ZERO,
    ) -> int:
        check_delay(delay)
        return await self._apply_to_letters(partial(admin.replay, delay=delay), run_id, ids, where)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_letters(admin.drop, run_id, ids, where)

    async def _apply_to_letters(
        self, action: LetterAction, run_id: str, ids: Sequence[str] | None, where: DeadFilter
    ) -> int:
        """Replay or drop dead letters in batches."""
        if ids is None:
            return await self._apply_to_all(action, run_id, where)
        count = 0
        for start in range(0, max(1, len(ids)), LETTER_BATCH):
            some = ids[start : start + LETTER_BATCH]
            count += await self._writer.call(admin.apply_to_ids, action, run_id, some, where)
        return count

    async def _apply_to_all(self, action: LetterAction, run_id: str, where: DeadFilter) -> int:
        # Only up to the newest one of now: a task that dies again meanwhile is not replayed twice.
        until = await self._reader.call(admin.last_letter, run_id)
        count = after = 0
        while after < until:
            applied, after = await self._writer.call(admin.apply_to_page, action, run_id, after, until, where)
            count += applied
        return count

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        entries = (await self._intake(run_id)).edited(edits) if edits else []
        pairs, fates = list(zip(edits, entries, strict=True)), list[EditFate]()
        for start in range(0, max(1, len(pairs)), LETTER_BATCH):
            fates += await self._writer.call(edit, run_id, pairs[start : start + LETTER_BATCH])
        return fates

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._writer.call(admin.pause_host, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._writer.call(admin.slow_host, host, delay)
