"""Servers to test against, private to one pytest process, and a fresh database for each test."""

import asyncio
import gc
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.order import sort_for_workers
from tests.reporting import TestReporting
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import USER, PostgresServer
from tests.servers.postgres_talk import PostgresTalk
from tests.servers.process import ServerMissing
from tests.servers.rabbitmq import RabbitServer, SharedRabbit
from tests.servers.redis import RedisCluster, RedisServer, ValkeyServer

Server = TypeVar("Server")
TEMPLATE = "shoal_template"
# Objects between two searches for garbage. With 700, the default, they take 2 % of the CPU time of all tests.
GARBAGE = 20_000
_numbers, _clones = itertools.count(1), itertools.count(1)

# How long an example takes, and how long it takes to draw one, says more of the machine than of the code.
# A failure is found in a few examples or in very many: SHOAL_EXAMPLES=1000 looks for the latter.
settings.register_profile(
    "shoal",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("SHOAL_EXAMPLES", "50")),
)
settings.load_profile("shoal")


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores Ctrl-C for what it starts with `&`, and so would every command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does `nohup` with SIGHUP. Handled here, it neither ends the tests nor is ignored by what they start.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Ten thousand tests are collected into objects that stay. Searched for garbage again and again while
    # they are made, and at every collection afterwards, they cost a third of the start.
    gc.disable()
    config.pluginmanager.register(TestReporting())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start once, before xdist starts its workers, what is too costly to start in each of them."""
    config, chosen = session.config, os.environ.get("SHOAL_TEST_BACKENDS", "rabbitmq")
    if not config.getoption("numprocesses", 0) or config.option.collectonly or "rabbitmq" not in chosen:
        return
    with suppress(ServerMissing):  # each test that needs it says so
        server = RabbitServer()
        config.add_cleanup(server.close)
        server.begin()
        SharedRabbit.announce(server)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if workers := getattr(config, "workerinput", {}).get("workercount"):
        items[:] = sort_for_workers(items, workers)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


@dataclass(frozen=True)
class LossyPostgres:
    """A test's database behind a proxy that can lose answers."""

    proxy: LossyProxy
    url: str


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL."""
    with or_skip(PostgresServer) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A private PgBouncer that pools transactions, four connections to a database."""
    with or_skip(lambda: PgBouncer(postgres)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """The name of a migrated database, made once and cloned for each test."""
    postgres.sql(f"CREATE DATABASE {TEMPLATE}")
    asyncio.run(_migrate(postgres.url(TEMPLATE)))
    # A database with a visitor cannot be cloned, and autovacuum is one.
    postgres.sql(f"ALTER DATABASE {TEMPLATE} IS_TEMPLATE true ALLOW_CONNECTIONS false")
    return TEMPLATE


@pytest.fixture
def postgres_database(postgres: PostgresServer, postgres_template: str) -> str:
    """The name of a fresh, migrated database."""
    number = next(_clones)
    # The one before goes in the same process of psql, of which a test would else wait for two.
    postgres.clone(postgres_template, f"test_{number}", instead_of=f"test_{number - 1}")
    return f"test_{number}"


@pytest.fixture
def empty_postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The address of a fresh database that nobody has migrated."""
    name = f"empty_{next(_numbers)}"
    postgres.sql(f"CREATE DATABASE {name}")
    yield postgres.url(name)
    postgres.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_database: str) -> str:
    """The address of the test's database."""
    return postgres.url(postgres_database)


@pytest.fixture
def pgbouncer_url(pgbouncer: PgBouncer, postgres_database: str) -> str:
    """The address of the test's database behind PgBouncer."""
    return pgbouncer.url(postgres_database)


@pytest.fixture
async def lossy_postgres(postgres: PostgresServer, postgres_database: str) -> AsyncIterator[LossyPostgres]:
    """The test's database behind a proxy that loses answers when it is told to."""
    async with LossyProxy(postgres.port, PostgresTalk) as proxy:
        yield LossyPostgres(proxy, f"postgresql://{USER}@127.0.0.1:{proxy.port}/{postgres_database}")


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A private Redis that forgets everything when it ends."""
    with or_skip(RedisServer) as server:
        yield server


@pytest.fixture
def redis_url(redis: RedisServer) -> str:
    """The address of the private Redis, emptied."""
    redis.flush()
    return redis.url()


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """A private Valkey that forgets everything when it ends."""
    with or_skip(ValkeyServer) as server:
        yield server


@pytest.fixture
def valkey_url(valkey: ValkeyServer) -> str:
    """The address of the private Valkey, emptied."""
    valkey.flush()
    return valkey.url()


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """A private cluster of three Redis servers."""
    with or_skip(RedisCluster) as cluster:
        yield cluster


@pytest.fixture
def redis_cluster_url(redis_cluster: RedisCluster) -> str:
    """The address of the private cluster, emptied."""
    redis_cluster.flush()
    return redis_cluster.url


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitServer | SharedRabbit]:
    """A private RabbitMQ, which the workers of `-n` share.

    A test that stops it or raises an alarm takes `unshared_rabbitmq`.
    """
    if shared := SharedRabbit.announced():
        shared.wait_until_ready()
        yield shared
        return
    with or_skip(RabbitServer) as server:
        yield server


@pytest.fixture(scope="session")
def unshared_rabbitmq() -> Iterator[RabbitServer]:
    """A RabbitMQ of this process alone, which tests kill, start again and raise alarms of.

    A start takes 5 s of processor time: the files with such tests run in one worker, see `order.py`.
    """
    with or_skip(RabbitServer) as server:
        yield server


@pytest.fixture
def rabbitmq_url(rabbitmq: RabbitServer | SharedRabbit, redis_url: str) -> str:
    """The address of the private RabbitMQ with the private Redis, emptied, as its memory."""
    return rabbitmq.with_state(redis_url)


def or_skip(make: Callable[[], Server]) -> Server:
    """Make a server; where its program is missing, skip the test on a laptop and fail it in CI."""
    try:
        return make()
    except ServerMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


async def _migrate(url: str) -> None:
    # Not at the top: tests without a database must run without its driver.
    from shoal.queue.postgres.queue import PostgresQueue

    queue = await PostgresQueue.open(url)
    await queue.close()
