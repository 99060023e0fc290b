"""Where the queues lie: a private PostgreSQL that waits for its disk, and SQLite files."""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path

import apsw
import asyncpg

from tests.servers.postgres import PostgresServer

_SQLITE = "sqlite:///"
_numbers = count(1)


class Store(ABC):
    """A kind of queue, and empty rooms for as many as a scenario needs."""

    name: str
    loaders: int  # processes that fill a queue fastest

    @abstractmethod
    @contextmanager
    def room(self) -> Iterator[str]:
        """Lend the address of an empty database, which is gone afterwards."""

    @abstractmethod
    def rest(self, address: str) -> None:
        """Have the store do now what it would do in its own time after a load."""

    def cpu(self) -> float:
        """Return the processor seconds that the server has used so far; zero when there is none."""
        return 0.0

    @abstractmethod
    def pin(self, address: str) -> AbstractAsyncContextManager[None]:
        """Hold a transaction open that has read something."""


class PostgresStore(Store):
    """Databases of one server; everything but the size of the buffers is as PostgreSQL comes."""

    name = "postgres"
    loaders = 2

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @contextmanager
    def room(self) -> Iterator[str]:
        name = f"bench_{next(_numbers)}"
        self._server.sql(f"CREATE DATABASE {name}")
        try:
            yield self._server.url(name)
        finally:
            self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def rest(self, address: str) -> None:
        self._server.sql("VACUUM (ANALYZE)", "CHECKPOINT", database=address.rpartition("/")[2])

    def cpu(self) -> float:
        main, *others = (_stat(pid) for pid in (self._server.pid, *_children(self._server.pid)))
        # The times of the children that have ended are with their parent.
        ticks = sum(main[10:14]) + sum(sum(other[10:12]) for other in others)
        return ticks / os.sysconf("SC_CLK_TCK")

    @asynccontextmanager
    async def pin(self, address: str) -> AsyncIterator[None]:
        connection = await asyncpg.connect(address)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                await connection.fetchval("SELECT count(*) FROM shoal.run")
                yield
        finally:
            await connection.close()


class SqliteStore(Store):
    """Files in a temporary folder."""

    name = "sqlite"
    loaders = 1

    @contextmanager
    def room(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            yield f"{_SQLITE}{Path(folder) / 'queue.db'}"

    def rest(self, address: str) -> None:
        """Do nothing: the last connection to close a file has written its log back."""

    @asynccontextmanager
    async def pin(self, address: str) -> AsyncIterator[None]:
        # With the same library as the queue: two copies of SQLite in one process break each other's locks.
        with closing(apsw.Connection(address.removeprefix(_SQLITE))) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            yield


def _stat(pid: int) -> list[int]:
    """Return the numbers of a process's state, from its parent's pid on; nothing when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return [int(word) for word in text.rpartition(")")[2].split()[1:]]


def _children(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if _stat(pid)[:1] == [parent]]
