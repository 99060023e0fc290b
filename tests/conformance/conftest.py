"""Every test of this folder runs once on every backend."""

from collections.abc import AsyncIterator, Iterator

import pytest

from shoal.queue.contract import Queue
from tests.conformance.backends import BACKENDS, Bench, Clock, StoreUnderTest
from tests.servers.eraser import Eraser
from tests.servers.postgres import PostgresServer

DATABASE = "conformance"

URLS = {
    "postgres": "postgres_url",
    "redis": "redis_url",
    "redis-cluster": "redis_cluster_url",
    "rabbitmq": "rabbitmq_url",
}


@pytest.fixture(scope="session")
def eraser(postgres: PostgresServer, postgres_template: str) -> Iterator[Eraser]:
    """Empties the database that these tests share: none of them changes its tables."""
    postgres.clone(postgres_template, DATABASE)
    with Eraser(postgres, DATABASE) as made:
        yield made


@pytest.fixture
def postgres_url(postgres: PostgresServer, eraser: Eraser) -> str:
    eraser.empty()
    return postgres.url(DATABASE)


@pytest.fixture(params=list(BACKENDS))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoreUnderTest:
    """A backend, and a fresh store for it."""
    name: str = request.param
    url = request.getfixturevalue(URLS[name]) if name in URLS else ""
    return StoreUnderTest(name, tmp_path_factory.mktemp(name), url)


@pytest.fixture
async def bench(store: StoreUnderTest) -> AsyncIterator[Bench]:
    """An open queue of one backend with its clock."""
    async with store.bench() as bench:
        yield bench


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue


@pytest.fixture
def clock(bench: Bench) -> Clock:
    return bench.clock
