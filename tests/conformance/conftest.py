"""Every test of this folder runs once on every backend."""

from collections.abc import AsyncIterator

import pytest

from shoal.queue.contract import Queue
from tests.conformance.backends import BACKENDS, Bench, Clock, Place

URLS = {
    "postgres": "postgres_url",
    "redis": "redis_url",
    "redis-cluster": "redis_cluster_url",
    "rabbitmq": "rabbitmq_url",
}


@pytest.fixture(params=list(BACKENDS))
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A backend, and a fresh store for it."""
    name: str = request.param
    url = request.getfixturevalue(URLS[name]) if name in URLS else ""
    return Place(name, tmp_path_factory.mktemp(name), url)


@pytest.fixture
async def bench(place: Place) -> AsyncIterator[Bench]:
    """An open queue of one backend with its clock."""
    async with place.bench() as bench:
        yield bench


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue


@pytest.fixture
def clock(bench: Bench) -> Clock:
    return bench.clock
