"""The servers that queues lie on: started when the first racer needs them, emptied for each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerProcess
from tests.servers.redis import RedisServer
from tools.bench.crawl.cpu import cpu_of, family_of, pin


class Stores:
    """A PostgreSQL and a Redis of our own, both as durable as they come."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._servers: dict[str, ServerProcess] = {}
        self._numbers = count(1)

    def __enter__(self) -> "Stores":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextmanager
    def room(self, kind: str | None, cores: set[int]) -> Iterator[str]:
        """Lend the address of an empty store, kept on some cores; an empty address when none is needed."""
        if kind is None:
            yield ""
            return
        server = self._servers.get(kind) or self._start(kind)
        pin(family_of(server.pid), cores)
        if isinstance(server, RedisServer):
            server.cli("FLUSHALL")
            yield server.url()
        else:
            assert isinstance(server, PostgresServer)
            yield from self._database(server)

    def cpu(self, kind: str | None) -> float:
        """Return the processor seconds that a store has used so far."""
        return cpu_of(self._servers[kind].pid) if kind in self._servers else 0.0

    def _start(self, kind: str) -> ServerProcess:
        server = PostgresServer(durable=True) if kind == "postgres" else RedisServer(append=True)
        self._servers[kind] = self._open.enter_context(server)
        return server

    def _database(self, server: PostgresServer) -> Iterator[str]:
        name = f"crawl_{next(self._numbers)}"
        server.sql(f"CREATE DATABASE {name}")
        try:
            yield server.url(name)
        finally:
            server.sql(f"DROP DATABASE {name} WITH (FORCE)", "CHECKPOINT")
