"""Runs: started, looked up, changed, counted and purged; and the workers in them."""

from collections.abc import Sequence
from typing import Any

from shoal.core.errors import UnknownRun
from shoal.core.model import ZERO, Run, RunSettings, RunState, Stats, WorkerStatus
from shoal.queue.contract import QueueAdmin, WorkQueue
from shoal.queue.encoding import stats_from
from shoal.queue.intake import decode
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES, call
from shoal.queue.requests import STEERED_FROM

FOLD_BATCH = 10_000  # deltas per call
PURGED_ROWS = 2_000  # of one batch, in tables with an index on the run
PURGED_BLOCKS = 500  # of one batch, in tables without one: 4 MB that are read
_INDEXED = ("item", "reject", "dead", "expired", "dropped")
_SCANNED = ("attempt", "done", "task")

PURGE = call("purge", "text")
PURGE_REST = call("purge_rest", "int")
FOLD = call("fold_some", "int")
Row = Any


async def find_run(server: PostgresServer, run_id: str) -> Run:
    """Return a run; raises UnknownRun."""
    rows = await server.fetch(QUERIES["runs"], run_id)
    if not rows:
        raise UnknownRun(run_id, [run.id for run in await all_runs(server)])
    return run_from(rows[0])


async def all_runs(server: PostgresServer) -> list[Run]:
    """Return all runs, the newest first."""
    return [run_from(row) for row in await server.fetch(QUERIES["runs"], None)]


async def clear_purged(server: PostgresServer) -> None:
    """Delete the rows of all purged runs, also of those whose purge was interrupted."""
    for row in await server.fetch("SELECT run FROM shoal.purged"):
        for table in _INDEXED:
            while await server.value(
                QUERIES["purge_rows"].replace("purge_table", table), row["run"], PURGED_ROWS
            ):
                pass
        for table in _SCANNED:
            await _scan(server, table, row["run"])
        await server.fetch(PURGE_REST, row["run"], timeout=None)


async def _scan(server: PostgresServer, table: str, run: int) -> None:
    """Delete a run's rows block by block; no new ones can appear, because the run is unknown."""
    blocks = await server.value(QUERIES["purge_blocks"].replace("purge_table", table))
    for block in range(0, blocks, PURGED_BLOCKS):
        first, last = f"({block},0)", f"({block + PURGED_BLOCKS},0)"
        await server.fetch(QUERIES["purge_scan"].replace("purge_table", table), run, first, last)


async def fold_counts(server: PostgresServer) -> None:
    """Fold all pending deltas into the totals."""
    while await server.value(FOLD, FOLD_BATCH) >= FOLD_BATCH:
        pass


def run_from(row: Row) -> Run:
    """Return the run of a row."""
    return Run(
        id=row["run_id"],
        scraper=row["scraper"],
        state=RunState(row["state"]),
        started_at=row["started_at"],
        reason=row["reason"],
        settings=RunSettings(
            host_delay=row["host_delay"],
            per_host=row["per_host"],
            max_attempts=row["max_attempts"],
            ttl=row["ttl"],
            dedup=row["dedup"],
            dedup_steps=tuple(row["dedup_steps"]),
        ),
    )


class PostgresRuns(WorkQueue, QueueAdmin):
    """The runs of a queue, and the workers in them."""

    _server: PostgresServer

    async def _start_run(self, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
        rows = await self._server.once(
            QUERIES["start_run"],
            run_id,
            scraper,
            settings.host_delay,
            settings.per_host,
            settings.max_attempts,
            settings.ttl,
            settings.dedup,
            list(settings.dedup_steps),
        )
        return await find_run(self._server, run_id), rows[0][0]

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        await self._server.fetch(QUERIES["steer"], run_id, state, reason, list(STEERED_FROM[state]))
        return await find_run(self._server, run_id)

    async def _change_run(self, run: Run, settings: RunSettings) -> Run:
        fetch = self._server.fetch
        await fetch(
            QUERIES["change_run"], run.id, settings.host_delay, settings.per_host, settings.max_attempts
        )
        # Hosts that wait for the old limits wait for the new ones from now on.
        await fetch(QUERIES["shorten_gaps"], run.id, run.settings.host_delay, settings.host_delay)
        await fetch(QUERIES["wake_run"], run.id)
        return await find_run(self._server, run.id)

    async def _purge(self, run_id: str) -> None:
        await find_run(self._server, run_id)
        await self._server.fetch(PURGE, run_id, timeout=None)
        await clear_purged(self._server)

    async def run(self, run_id: str) -> Run:
        return await find_run(self._server, run_id)

    async def runs(self) -> Sequence[Run]:
        return await all_runs(self._server)

    async def stats(self, run_id: str) -> Stats:
        await find_run(self._server, run_id)
        return stats_from(
            (row["step"], row["partition"], row["kind"], row["count"])
            for row in await self._server.fetch(QUERIES["stats"], run_id)
        )

    async def _beat(self, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
        ids, states, infos = zip(*beats, strict=True)
        if not await self._server.fetch(QUERIES["beat"], ids, run_id, states, infos):
            await find_run(self._server, run_id)  # raises UnknownRun

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        if run_id is not None:
            await find_run(self._server, run_id)
        await fold_counts(self._server)
        rows = await self._server.fetch(QUERIES["workers"], run_id)
        return [
            WorkerStatus(
                worker_id=row["worker_id"],
                run_id=row["run_id"],
                state=row["state"],
                info=decode(row["info"]),
                last_beat=max(row["last_beat"], ZERO),
                leased=row["leased"],
                completed=row["completed"],
                failed=row["failed"],
                items=row["items"],
            )
            for row in rows
        ]
