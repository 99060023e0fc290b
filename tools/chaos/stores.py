"""The queues of a campaign: their servers, each behind a proxy, and the address that workers are given."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tools.chaos.children import Servant, send
from tools.chaos.conditions import (
    Condition,
    Failover,
    Promotion,
    alarm,
    fill_memory,
    hold_file,
    hold_transaction,
    refuse_writes,
    replicate_from_nowhere,
)
from tools.chaos.proxy import LEAD

Primary = TypeVar("Primary", PostgresServer, RedisServer)

# RabbitMQ 3.10 writes the name of a new quorum queue to its disk a second or two after it has answered;
# killed within them, it comes back with a queue that never answers. A campaign leaves that alone.
SETTLING = {"rabbitmq": 8.0}


class Server(Protocol):
    """A private server that can die and come back."""

    name: str
    port: int

    def start(self) -> None: ...
    def kill(self) -> None: ...


@dataclass
class Store:
    """A queue, and what can be broken of it."""

    name: str
    url: str
    servers: list[Server] = field(default_factory=list)
    proxies: dict[str, Servant] = field(default_factory=dict)  # by the name of the server behind
    conditions: dict[str, Condition] = field(default_factory=dict)  # by the kind of fault
    moved_at: datetime | None = None  # just before its address was led to another primary

    @property
    def settling(self) -> float:
        """How many seconds after its start its servers may be killed."""
        return SETTLING.get(self.name, 0.0)

    def restart(self, server: Server, away: float) -> None:
        """Kill a server, and start it again on its data after a while."""
        # Never in a thread, with which the server would end.
        server.kill()
        time.sleep(away)
        server.start()

    def order(self, name: str, word: str) -> None:
        """Have the proxy before a server obey a word."""
        self.speak(name)  # what is stopped hears nothing
        self.proxies[name].say(word)
        self.proxies[name].hear()

    def hush(self, name: str) -> None:
        """Let nothing through to a server, nor back; connections stay open."""
        send(signal.SIGSTOP, [self.proxies[name].pid])

    def speak(self, name: str) -> None:
        """Let everything through again."""
        send(signal.SIGCONT, [self.proxies[name].pid])


@contextmanager
def open_store(name: str, folder: Path) -> Iterator[Store]:
    """Start what a queue needs, and end it afterwards; raises ServerMissing."""
    with ExitStack() as stack:
        yield STORES[name](stack, folder)


def _sqlite(stack: ExitStack, folder: Path) -> Store:
    file = folder / "queue.db"
    return Store("sqlite", f"sqlite:///{file}", conditions={"foreign": hold_file(file)})


def _postgresql(stack: ExitStack, folder: Path) -> Store:
    server = stack.enter_context(_postgres_server())
    proxy = _before(stack, server)
    store = Store("postgresql", _moved(server.url(), proxy), [server], {server.name: proxy})
    primary, lead_to = _leading(store, PostgresServer)
    standby = _postgres_server()
    stack.callback(standby.close)
    standby.start_standby_of(server)
    promotion = Promotion(primary, lead_to, standby)
    store.conditions |= _postgres_conditions(primary)
    store.conditions["failover"] = Condition(server.name, promotion.begin)
    return store


def _leading(store: Store, kind: type[Primary]) -> tuple[Callable[[], Primary], Callable[[Primary], None]]:
    """Return what tells the primary of a store, its first server, and what makes another one the primary."""

    def primary() -> Primary:
        server = store.servers[0]
        assert isinstance(server, kind)
        return server

    def lead_to(server: Primary) -> None:
        store.servers[0] = server
        store.moved_at = datetime.now(UTC)
        store.order(server.name, f"{LEAD} {server.port}")

    return primary, lead_to


def _postgres_server() -> PostgresServer:
    # A standby that was away for a while finds what it has missed.
    return PostgresServer(durable=True, settings={"wal_keep_size": "256MB"})


def _pgbouncer(stack: ExitStack, folder: Path) -> Store:
    server = stack.enter_context(PostgresServer(durable=True))
    pool = stack.enter_context(PgBouncer(server))
    proxy = _before(stack, pool)
    conditions = _postgres_conditions(lambda: server)
    return Store("pgbouncer", _moved(pool.url(), proxy), [server, pool], {pool.name: proxy}, conditions)


def _postgres_conditions(primary: Callable[[], PostgresServer]) -> dict[str, Condition]:
    return {"readonly": refuse_writes(primary), "foreign": hold_transaction(primary)}


def _redis(stack: ExitStack, folder: Path) -> Store:
    server = stack.enter_context(_redis_server())
    proxy = _before(stack, server)
    store = Store("redis", _moved(server.url(), proxy), [server], {server.name: proxy})
    store.conditions |= _redis_conditions(stack, store)
    return store


def _redis_server() -> RedisServer:
    # A primary waits five seconds for more replicas before it sends its data, unless it is told not to.
    return RedisServer(append=True, settings={"repl-diskless-sync-delay": "0"})


def _redis_conditions(stack: ExitStack, store: Store) -> dict[str, Condition]:
    """Return what can be done to the Redis of a store, its first server, and start a replica for it."""
    primary, lead_to = _leading(store, RedisServer)
    replica = _redis_server()
    replica.follow(primary())
    failover = Failover(primary, lead_to, stack.enter_context(replica))
    return {
        "full": fill_memory(primary),
        "readonly": replicate_from_nowhere(primary),
        "failover": Condition("redis", failover.begin),
    }


def _rabbitmq(stack: ExitStack, folder: Path) -> Store:
    memory = stack.enter_context(_redis_server())
    broker = stack.enter_context(RabbitServer())
    proxies = {server.name: _before(stack, server) for server in (memory, broker)}
    state = _moved(memory.url(), proxies[memory.name])
    url = f"{_moved(broker.url, proxies[broker.name])}?state={state}"
    store = Store("rabbitmq", url, [memory, broker], proxies, {"alarm": alarm(broker)})
    store.conditions |= _redis_conditions(stack, store)
    return store


STORES: dict[str, Callable[[ExitStack, Path], Store]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "pgbouncer": _pgbouncer,
    "redis": _redis,
    "rabbitmq": _rabbitmq,
}


def _before(stack: ExitStack, server: Server) -> Servant:
    proxy = Servant("proxy", server.port)
    stack.callback(proxy.close)
    return proxy


def _moved(url: str, proxy: Servant) -> str:
    """Return the address of a server by way of its proxy."""
    return re.sub(r"(127\.0\.0\.1):\d+", rf"\g<1>:{proxy.port}", url, count=1)
