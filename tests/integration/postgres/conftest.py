"""Queues on a separate database for each test, and direct connections to it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.server import PostgresServer
from tests.integration.stands import STANDS, Stand, proxy, shaky, talk  # noqa: F401 - fixtures

Uncommitted = Callable[[], AbstractAsyncContextManager[PostgresQueue]]


@pytest.fixture
async def queue(postgres_url: str) -> AsyncIterator[PostgresQueue]:
    async with await PostgresQueue.open(postgres_url) as queue:
        yield queue


@pytest.fixture
async def direct(postgres_url: str) -> AsyncIterator[Any]:
    """A direct connection to the test's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def bare(empty_postgres_url: str) -> AsyncIterator[Any]:
    """A connection to a database without Shoal's schema."""
    connection = await asyncpg.connect(empty_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def uncommitted(postgres_url: str) -> Uncommitted:
    """Return a context manager for a queue whose work is not committed until the block ends."""

    @asynccontextmanager
    async def uncommitted() -> AsyncIterator[PostgresQueue]:
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                yield PostgresQueue(_OneTransaction(connection))
        finally:
            await connection.close()

    return uncommitted


class _OneTransaction(PostgresServer):
    """Makes every call on one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _retry(self, attempt: Callable[[bool], Any]) -> Any:
        return await attempt(False)

    async def _fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Any]:
        return list(await self._connection.fetch(query, *args))


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Stand:
    return STANDS["postgres"](request.getfixturevalue)
