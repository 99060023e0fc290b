"""What the verbs of every group share on a PostgreSQL database."""

from collections.abc import Sequence
from typing import Any

from shoal.core.errors import UnknownRun
from shoal.core.model import Run, RunSettings
from shoal.queue.intake import Intake
from shoal.queue.postgres import sql
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.wire import run_from


class PostgresQueueBase:
    """The connections, and the runs that their verbs look up."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._intakes: dict[str, Intake] = {}

    async def run(self, run_id: str) -> Run:
        rows = await self._server.fetch(sql.QUERIES["runs"], run_id)
        if not rows:
            raise UnknownRun(run_id, [run.id for run in await self.runs()])
        return run_from(rows[0])

    async def runs(self) -> Sequence[Run]:
        rows = await self._server.fetch(sql.QUERIES["runs"], None)
        return [run_from(row) for row in rows]

    async def _once(self, query: str, run_id: str, *args: Any) -> list[Any]:
        try:
            return await self._server.once(query, run_id, *args)
        except UnknownRun:
            await self.run(run_id)  # raises the same error with the nearest run id
            raise

    async def _intake(self, run_id: str) -> Intake:
        if run_id not in self._intakes:
            run = await self.run(run_id)
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]

    async def _intake_or_default(self, run_id: str) -> Intake:
        """Return a run's intake, also for a purged run: its outcomes are stale, not errors."""
        try:
            return await self._intake(run_id)
        except UnknownRun:
            return Intake(run_id, RunSettings())
