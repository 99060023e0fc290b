"""Queues on test servers, and direct connections to those servers."""

from collections.abc import AsyncIterator
from typing import Any

import aiormq
import pytest
from redis.asyncio import Redis

from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.integration.rabbitmq.depths import Depths
from tests.integration.stands import STANDS, Stand, proxy, shaky, talk  # noqa: F401 - fixtures
from tests.servers.rabbitmq import RabbitServer


@pytest.fixture
async def queue(rabbitmq_url: str) -> AsyncIterator[RabbitQueue]:
    async with await RabbitQueue.open(rabbitmq_url) as queue:
        yield queue
        for run in await queue.runs():
            await queue.purge(run.id)


@pytest.fixture
async def direct(redis_url: str) -> AsyncIterator[Any]:
    """A connection to the test's Redis, past the queue."""
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
async def depths(rabbitmq: RabbitServer, direct: Any) -> AsyncIterator[Depths]:
    """A connection to the test's broker, past the queue."""
    async with aiormq.connect(rabbitmq.url) as connection:
        yield Depths(connection, direct)


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Stand:
    return STANDS["rabbitmq"](request.getfixturevalue)
