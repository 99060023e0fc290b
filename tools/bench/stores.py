"""Where the queues lie: what every kind of store lends to a scenario, and the two that speak SQL."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from itertools import count
from pathlib import Path

import apsw
import asyncpg

from tests.servers.postgres import PostgresServer
from tools.bench.processes import cpu_of_family

_SQLITE = "sqlite:///"
_SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
_numbers = count(1)


class Store(ABC):
    """A kind of queue, and empty rooms for as many as a scenario needs."""

    name: str
    loaders: int  # processes that fill a queue fastest

    @abstractmethod
    def room(self) -> AbstractAsyncContextManager[str]:
        """Lend the address of an empty database, which is gone afterwards."""

    def rest(self, address: str) -> None:
        """Have the store do now what it would do in its own time after a load."""
        return

    def cpu(self) -> float:
        """Return the processor seconds that the server has used so far; zero when there is none."""
        return 0.0

    def memory(self) -> Mapping[str, float]:
        """Return how many bytes each server holds; nothing when that is not worth knowing."""
        return {}

    def about(self) -> Mapping[str, str]:
        """Return what a reader must know of the server."""
        return {}

    async def forget(self, queue: str) -> None:
        """Remove what a peer has left under the name of its queue and outside of the room."""
        return


class SqlStore(Store):
    """A store whose transactions can stay open."""

    @abstractmethod
    def pin(self, address: str) -> AbstractAsyncContextManager[None]:
        """Hold a transaction open that has read something, and written where others can write beside it."""


class PostgresStore(SqlStore):
    """Databases of one server; everything but the size of the buffers is as PostgreSQL comes."""

    name = "postgres"
    loaders = 2

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @asynccontextmanager
    async def room(self) -> AsyncIterator[str]:
        name = f"bench_{next(_numbers)}"
        self._server.sql(f"CREATE DATABASE {name}")
        try:
            yield self._server.url(name)
        finally:
            self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def rest(self, address: str) -> None:
        self._server.sql("VACUUM (ANALYZE)", "CHECKPOINT", database=address.rpartition("/")[2])

    def cpu(self) -> float:
        return cpu_of_family(self._server.pid)

    def about(self) -> Mapping[str, str]:
        return {name: self._server.sql(f"SHOW {name}") for name in _SETTINGS}

    @asynccontextmanager
    async def pin(self, address: str) -> AsyncIterator[None]:
        connection = await asyncpg.connect(address)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                # Its snapshot keeps vacuum from dead rows, its id keeps the server's oldest one from rising.
                await connection.fetchval("SELECT count(*), pg_current_xact_id() FROM shoal.run")
                yield
        finally:
            await connection.close()


class SqliteStore(SqlStore):
    """Files in a temporary folder."""

    name = "sqlite"
    loaders = 1

    @asynccontextmanager
    async def room(self) -> AsyncIterator[str]:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            yield f"{_SQLITE}{Path(folder) / 'queue.db'}"

    @asynccontextmanager
    async def pin(self, address: str) -> AsyncIterator[None]:
        # With the same library as the queue: two copies of SQLite in one process break each other's locks.
        with closing(apsw.Connection(address.removeprefix(_SQLITE))) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            yield
