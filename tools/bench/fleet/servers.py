"""The servers that a fleet works on, and what each says of its own work."""

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisCluster, RedisServer
from tools.bench.processes import cpu_of_family

# A worker process has a queue of its own, as has its launcher. Here the workers of a machine share one, so
# that they fit into a few processes, but for those of the probe; a queue on PostgreSQL opens up to six
# connections.
PER_MACHINE = 25
SETTINGS = {"shared_preload_libraries": "pg_stat_statements"}
MAX_CONNECTIONS = 1_200  # of PostgreSQL without PgBouncer
CLIENTS = 5_000  # connections that PgBouncer takes


class Counters(NamedTuple):
    """What a server has done so far."""

    cpu: float  # processor seconds
    queries: int
    connections: int
    wal: int = 0  # bytes
    details: Mapping[str, int] = {}


class FleetServer(ABC):
    """A server, and its counters."""

    name: str
    per_machine = PER_MACHINE
    sample_interval = 1.0  # seconds

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of an empty queue."""

    @abstractmethod
    def count(self) -> Counters:
        """Return what the server has done so far."""


class PostgresFleet(FleetServer):
    """PostgreSQL without a pooler; the workers of a machine share its connections."""

    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        server.sql("CREATE DATABASE fleet", "CREATE EXTENSION pg_stat_statements")

    @property
    def address(self) -> str:
        return self._server.url("fleet")

    def count(self) -> Counters:
        row = self._server.sql(
            "SELECT xact_commit + xact_rollback, numbackends, pg_current_wal_lsn() - '0/0' "
            "FROM pg_stat_database WHERE datname = 'fleet'"
        )
        queries, connections, wal = map(int, row.split("|"))
        return Counters(cpu_of_family(self._server.pid), queries, connections, wal, self._count_by_kind())

    def _count_by_kind(self) -> dict[str, int]:
        """Return how often each kind of query was run, and its microseconds in all."""
        rows = self._server.sql(
            "SELECT substring(query FROM 'shoal\\.\\w+'), sum(calls), round(1000 * sum(total_exec_time)) "
            "FROM pg_stat_statements WHERE query ~ 'shoal\\.' AND toplevel GROUP BY 1"
        )
        kinds = [row.split("|") for row in rows.splitlines()]
        counts = {f"{kind} calls": int(calls) for kind, calls, _ in kinds}
        return counts | {f"{kind} us": int(micros) for kind, _, micros in kinds}


class PgBouncerFleet(PostgresFleet):
    """PostgreSQL behind PgBouncer in transaction pooling mode."""

    name = "pgbouncer"

    def __init__(self, server: PostgresServer, pooler: PgBouncer) -> None:
        super().__init__(server)
        self._pooler = pooler

    @property
    def address(self) -> str:
        return self._pooler.url("fleet")

    def count(self) -> Counters:
        found = super().count()
        pooler = cpu_of_family(self._pooler.pid)
        details = {**found.details, "pooler_cpu_ms": round(pooler * 1e3)}
        return found._replace(cpu=found.cpu + pooler, details=details)


class SqliteFleet(FleetServer):
    """A file; a few workers of one machine share it."""

    name = "sqlite"

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "queue.db"

    @property
    def address(self) -> str:
        return f"sqlite:///{self._path}"

    def count(self) -> Counters:
        return Counters(0.0, 0, 0)


class RedisFleet(FleetServer):
    """One Redis with its append-only file, or several that form a cluster."""

    def __init__(self, name: str, address: str, servers: list[RedisServer]) -> None:
        self.name, self._address, self._servers = name, address, servers

    @property
    def address(self) -> str:
        return self._address

    def count(self) -> Counters:
        calls = commands = connections = 0
        for server in self._servers:
            info = server.cli("INFO", "everything")
            # A script is one query; the commands that it runs are counted beside it.
            scripts = re.findall(r"cmdstat_(?:evalsha|eval|fcall):calls=(\d+)", info)
            calls += sum(map(int, scripts))
            commands += _number(r"total_commands_processed:(\d+)", info)
            connections += _number(r"connected_clients:(\d+)", info)
        cpu = sum(cpu_of_family(server.pid) for server in self._servers)
        return Counters(cpu, calls, connections, details={"commands": commands})


class RabbitFleet(RedisFleet):
    """RabbitMQ, and the Redis that holds its state; the messages are the details."""

    sample_interval = 3.0  # each sample starts two Erlang machines

    def __init__(self, rabbit: RabbitServer, redis: RedisServer) -> None:
        super().__init__("rabbitmq", rabbit.with_state(redis.url(1)), [redis])
        self._rabbit = rabbit

    def count(self) -> Counters:
        found = super().count()
        counters = self._rabbit.ctl("eval", "rabbit_global_counters:overview().")
        names = ("messages_received_total", "messages_delivered_total", "messages_acknowledged_total")
        details = {name: sum(map(int, re.findall(rf"{name} => (\d+)", counters))) for name in names}
        connections = self._rabbit.ctl("eval", "rabbit_networking:connections_local().").count("<")
        return Counters(
            found.cpu + cpu_of_family(self._rabbit.pid),
            found.queries + sum(details.values()),
            found.connections + connections,
            details={**found.details, **details},
        )


@contextmanager
def open_postgres() -> Iterator[FleetServer]:
    """Start a PostgreSQL with its own defaults, but for the number of connections."""
    with PostgresServer(durable=True, max_connections=MAX_CONNECTIONS, settings=SETTINGS) as server:
        yield PostgresFleet(server)


@contextmanager
def open_pgbouncer() -> Iterator[FleetServer]:
    """Start a PostgreSQL and a PgBouncer in front of it."""
    with (
        PostgresServer(durable=True, settings=SETTINGS) as server,
        PgBouncer(server, pool_size=20, clients=CLIENTS) as pooler,
    ):
        yield PgBouncerFleet(server, pooler)


@contextmanager
def open_redis() -> Iterator[FleetServer]:
    """Start a Redis."""
    with RedisServer(append=True) as server:
        yield RedisFleet("redis", server.url(1), [server])


@contextmanager
def open_redis_cluster() -> Iterator[FleetServer]:
    """Start a cluster of three."""
    with RedisCluster() as cluster:
        yield RedisFleet("redis-cluster", cluster.url, cluster.nodes)


@contextmanager
def open_rabbitmq() -> Iterator[FleetServer]:
    """Start a RabbitMQ and its Redis."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(append=True))
        yield RabbitFleet(stack.enter_context(RabbitServer()), redis)


@contextmanager
def open_sqlite() -> Iterator[FleetServer]:
    """Make a folder for a file."""
    with tempfile.TemporaryDirectory(prefix="shoal-fleet-") as folder:
        yield SqliteFleet(folder)


SERVERS = {
    "postgres": open_postgres,
    "pgbouncer": open_pgbouncer,
    "redis": open_redis,
    "redis-cluster": open_redis_cluster,
    "rabbitmq": open_rabbitmq,
    "sqlite": open_sqlite,
}


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
