"""The servers that a run of the benchmark needs, each of its own and as a careful user runs it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.servers.postgres import PostgresServer
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tools.bench.brokers import RabbitStore, RedisStore
from tools.bench.stores import PostgresStore, SqliteStore, Store


@contextmanager
def open_stores(wanted: Collection[str], *, shared_buffers: str) -> Iterator[Mapping[str, Store]]:
    """Start what the wanted stores need, and stop it afterwards; raises ServerMissing."""
    with ExitStack() as stack:
        stores: dict[str, Store] = {"sqlite": SqliteStore()}
        if "postgres" in wanted:
            server = PostgresServer(durable=True, shared_buffers=shared_buffers)
            stores["postgres"] = PostgresStore(stack.enter_context(server))
        if {"redis", "rabbitmq"} & set(wanted):
            redis = RedisStore(stack.enter_context(RedisServer(append=True)))
            stores["redis"] = redis
        if "rabbitmq" in wanted:
            stores["rabbitmq"] = RabbitStore(stack.enter_context(RabbitServer()), redis)
        yield {name: store for name, store in stores.items() if name in wanted}
