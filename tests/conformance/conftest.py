"""The tests of this folder run on several stores: `backends.py` says which."""

import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from shoal.queue.contract import Queue
from tests.conformance.backends import Bench, Clock, StoreUnderTest, stores_of
from tests.servers.eraser import Eraser
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer

DATABASE = "conformance"
HERE = Path(__file__).parent

URLS = {
    "postgres": "postgres_url",
    "pgbouncer": "pgbouncer_url",
    "redis": "redis_url",
    "redis-cluster": "redis_cluster_url",
    "valkey": "valkey_url",
    "rabbitmq": "rabbitmq_url",
}


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Run the tests of this folder in one event loop, which its warm connections belong to."""
    if not isinstance(collector, pytest.Module) or collector.path.parent != HERE:
        return
    if any(inspect.iscoroutinefunction(value) for value in vars(collector.obj).values()):
        collector.add_marker(pytest.mark.asyncio(loop_scope="session"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def warm_pools() -> AsyncIterator[None]:
    """Let queues on PostgreSQL take over the connections of those that were closed."""
    import asyncpg

    from tests.conformance.warm_pools import WarmPools

    pools = WarmPools()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncpg, "create_pool", pools.create_pool)
        yield
    await pools.close()


@pytest.fixture(scope="session")
def eraser(postgres: PostgresServer, postgres_template: str) -> Iterator[Eraser]:
    """Empties the database that these tests share: none of them changes its tables."""
    postgres.clone(postgres_template, DATABASE)
    with Eraser(postgres, DATABASE) as made:
        yield made


@pytest.fixture
def postgres_url(postgres: PostgresServer, eraser: Eraser, warm_pools: None) -> str:
    eraser.empty()
    return postgres.url(DATABASE)


@pytest.fixture
def pgbouncer_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    return pgbouncer.url(DATABASE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        stores = stores_of(module, metafunc.function.__name__, metafunc.function)
        metafunc.parametrize("store", stores, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoreUnderTest:
    """A backend, and a fresh store for it."""
    name: str = request.param
    url = request.getfixturevalue(URLS[name]) if name in URLS else ""
    return StoreUnderTest(name, tmp_path_factory.mktemp(name), url)


@pytest.fixture
def cluster_shards(store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide a queue on a cluster into four shards: on all three nodes, and two of them on one.

    Every claim calls every shard, and with sixteen these tests take half as long again. The random histories
    and `tests/integration/redis/test_cluster.py` are on sixteen.
    """
    if store.backend == "redis-cluster":
        monkeypatch.setattr("shoal.queue.redis.queue.SHARDS_OF_A_CLUSTER", 4)


@pytest_asyncio.fixture(loop_scope="session")
async def bench(store: StoreUnderTest, cluster_shards: None) -> AsyncIterator[Bench]:
    """An open queue of one backend with its clock."""
    async with store.bench() as bench:
        yield bench


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue


@pytest.fixture
def clock(bench: Bench) -> Clock:
    return bench.clock
