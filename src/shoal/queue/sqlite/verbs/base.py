"""What the verbs of every group share on a SQLite file."""

from collections.abc import Callable
from datetime import datetime

from shoal.core.errors import UnknownRun
from shoal.core.model import Run, RunSettings
from shoal.queue.intake import Intake
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.connection import ReadHandler, SqliteAddress, WriteHandler
from shoal.queue.sqlite.thread import ConnectionThread


class SqliteQueueBase:
    """The connections, and the runs that their verbs look up."""

    def __init__(self, address: SqliteAddress, now: Callable[[], datetime]) -> None:
        self._synchronous = address.synchronous
        self._writer = ConnectionThread(WriteHandler(address, now))
        self._reader = ConnectionThread(ReadHandler(address, now))
        self._intakes: dict[str, Intake] = {}

    async def run(self, run_id: str) -> Run:
        return await self._reader.call(runs.get, run_id)

    async def _intake(self, run_id: str) -> Intake:
        """Return a run's intake, also for a purged run: its outcomes are stale, not errors."""
        if run_id not in self._intakes:
            try:
                run = await self.run(run_id)
            except UnknownRun:
                return Intake(run_id, RunSettings())
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]
