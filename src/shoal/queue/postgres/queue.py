"""The PostgreSQL backend: each verb of the queue contract is one call of a database function."""

from datetime import timedelta
from typing import Self

from shoal.queue.contract import Queue
from shoal.queue.postgres.migrate import migrate
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.verbs.admin import PostgresAdmin
from shoal.queue.postgres.verbs.notes import PostgresSharedNotes
from shoal.queue.postgres.verbs.reports import PostgresReports
from shoal.queue.postgres.verbs.work import PostgresWork
from shoal.queue.retry import RETRY_TIMEOUT


class PostgresQueue(PostgresWork, PostgresReports, PostgresAdmin, PostgresSharedNotes, Queue):
    """A queue in a PostgreSQL database, for any number of workers on any number of machines."""

    @classmethod
    async def open(cls, url: str, *, patience: timedelta = RETRY_TIMEOUT) -> Self:
        """Connect and migrate the schema; raises QueueUnavailable after `patience`."""
        server = PostgresServer(url, patience=patience)
        await server.open()
        try:
            await migrate(server)
        except BaseException:
            await server.close()
            raise
        return cls(server)

    async def close(self) -> None:
        await self._server.close()

    async def migrate(self) -> int:
        return await migrate(self._server)
