"""Queues on a test Redis, and direct connections to it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from shoal.queue.redis.queue import RedisQueue
from tests.integration.stands import STANDS, Stand, proxy, shaky, talk  # noqa: F401 - fixtures


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[RedisQueue]:
    async with await RedisQueue.open(redis_url) as queue:
        yield queue


@pytest.fixture
async def direct(redis_url: str) -> AsyncIterator[Any]:
    """A connection to the test's server, past the queue."""
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Stand:
    return STANDS["redis"](request.getfixturevalue)
