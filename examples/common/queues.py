"""The queues that an example runs on: SQLite, and a private server of its fleet."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFailed, ServerMissing
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

POOL = 10  # connections to PostgreSQL, for all workers together


@contextmanager
def open_postgres() -> Iterator[str]:
    """Yield a PostgreSQL behind a PgBouncer in transaction pooling mode."""
    with PostgresServer() as server, PgBouncer(server, pool_size=POOL) as pooler:
        yield pooler.url()


@contextmanager
def open_rabbitmq() -> Iterator[str]:
    """Yield a RabbitMQ whose state is in a Redis."""
    with RedisServer(append=True) as redis, RabbitServer() as rabbit:
        yield rabbit.with_state(redis.url())


@contextmanager
def open_redis() -> Iterator[str]:
    """Yield a Redis."""
    with RedisServer(append=True) as server:
        yield server.url()


@contextmanager
def open_sqlite(folder: Path) -> Iterator[str]:
    """Yield a file of SQLite."""
    yield f"sqlite:///{folder / 'shoal.db'}"


FLEETS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "postgres": open_postgres,
    "rabbitmq": open_rabbitmq,
    "redis": open_redis,
}

__all__ = ["FLEETS", "ServerFailed", "ServerMissing", "open_sqlite"]
