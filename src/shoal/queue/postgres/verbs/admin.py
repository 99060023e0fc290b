"""Administration of a PostgreSQL database: runs, dead letters and hosts."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

from shoal.core.errors import RunConflict
from shoal.core.failures import error_text
from shoal.core.model import ZERO, DeadFilter, Run, RunSettings, RunState
from shoal.queue.contract import EditFate, LetterEdit, QueueAdmin, RunLimits
from shoal.queue.postgres import sql
from shoal.queue.postgres.purge import purge
from shoal.queue.postgres.verbs.base import PostgresQueueBase
from shoal.queue.postgres.wire import edit_columns, filter_columns
from shoal.queue.rules import STEERED_FROM, changed_settings, check_delay, check_run, free_run_id, steered

BATCH = 1_000  # keys that one call forgets
EDIT_BATCH = 100  # dead letters that one call edits
EDIT_FATES = (EditFate.EDITED, EditFate.DUPLICATE, EditFate.CHANGED)  # as `shoal.edit_dead` numbers them


class PostgresAdmin(PostgresQueueBase, QueueAdmin):
    """Starts and changes runs, and handles dead letters and hosts."""

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        if run_id is None:
            run_id = await free_run_id(await self._server.value("SELECT clock_timestamp()"), self._has_run)
        await self._server.fetch(
            sql.QUERIES["start_run"],
            run_id,
            scraper,
            settings.host_delay,
            settings.per_host,
            settings.max_attempts,
            settings.ttl,
            settings.dedup,
            list(settings.dedup_steps),
        )
        run = await self.run(run_id)
        if run.scraper != scraper:
            raise RunConflict.of_another(run_id, run.scraper, scraper)
        return run

    async def _has_run(self, run_id: str) -> bool:
        return bool(await self._server.fetch(sql.QUERIES["runs"], run_id))

    async def pause(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._steer(run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.CANCELLED)

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        await self._server.fetch(sql.QUERIES["steer"], run_id, state, reason, list(STEERED_FROM[state]))
        return steered(await self.run(run_id), state)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        run = await self.run(run_id)
        new = changed_settings(run, limits)
        fetch, queries = self._server.fetch, sql.QUERIES
        await fetch(queries["change_run"], run_id, new.host_delay, new.per_host, new.max_attempts)
        # Hosts that wait for the old limits wait for the new ones from now on.
        await fetch(queries["shorten_gaps"], run_id, run.settings.host_delay, new.host_delay)
        await fetch(queries["wake_run"], run_id)
        return await self.run(run_id)

    async def purge(self, run_id: str) -> None:
        await self.run(run_id)
        self._intakes.pop(run_id, None)
        await purge(self._server, run_id)

    async def forget(self, scraper: str) -> int:
        count = 0
        after: bytes | None = b""
        while after is not None:
            known, after = (await self._server.fetch(sql.QUERIES["forget"], scraper, after, BATCH))[0]
            count += known
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
        return await self._dead_call(sql.REPLAY, run_id, ids, where, delay)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._dead_call(sql.DROP, run_id, ids, where)

    async def _dead_call(
        self, query: str, run_id: str, ids: Sequence[str] | None, where: DeadFilter, *more: timedelta
    ) -> int:
        await self.run(run_id)  # raises with the nearest run id if there is none
        rows = await self._server.once_long(query, run_id, *filter_columns(ids, where), *more)
        return int(rows[0][0])

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        entries = (await self._intake(run_id)).edited(edits) if edits else []
        await self.run(run_id)  # raises with the nearest run id if there is none
        fates = list[EditFate]()
        for start in range(0, len(edits), EDIT_BATCH):
            end = start + EDIT_BATCH
            columns = edit_columns(edits[start:end], entries[start:end])
            (reply,) = (await self._server.once(sql.EDIT, run_id, *columns))[0]
            fates += [EDIT_FATES[number] for number in reply]
        return fates

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.fetch(sql.PAUSE_HOST, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.fetch(sql.SLOW_HOST, host, delay)
