"""The SQLite backend of the queue contract."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shoal.queue.contract import Queue
from shoal.queue.sqlite.connection import BUSY_TIMEOUT, SqliteAddress
from shoal.queue.sqlite.migrate import migrate
from shoal.queue.sqlite.verbs.admin import SqliteAdmin
from shoal.queue.sqlite.verbs.notes import SqliteSharedNotes
from shoal.queue.sqlite.verbs.reports import SqliteReports
from shoal.queue.sqlite.verbs.work import SqliteWork


def utc_now() -> datetime:
    """Return the current time of this machine."""
    return datetime.now(UTC)


class SqliteQueue(SqliteWork, SqliteReports, SqliteAdmin, SqliteSharedNotes, Queue):
    """A queue in one file, shared by the processes of one machine."""

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        now: Callable[[], datetime] = utc_now,
        synchronous: str = "normal",
        patience: timedelta = BUSY_TIMEOUT,
    ) -> "SqliteQueue":
        """Open the queue in this file, which is created if necessary.

        What a call has returned survives a crash of the process, and with `synchronous="full"` a power cut.
        `patience` is how long to wait while other processes write.
        """
        queue = cls(SqliteAddress(Path(path).absolute(), synchronous, patience), now)
        await queue._open()
        return queue

    async def _open(self) -> None:
        try:
            await self._writer.open()
            await self.migrate()
            await self._reader.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def migrate(self) -> int:
        return await self._writer.call(migrate)
