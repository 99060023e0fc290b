"""Queues on a database of the test's own, and ways to look behind them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.server import Server
from tests.integration.stands import STANDS, Stand, proxy, shaky, talk  # noqa: F401 - fixtures

Uncommitted = Callable[[], AbstractAsyncContextManager[PostgresQueue]]


@pytest.fixture
async def queue(postgres_url: str) -> AsyncIterator[PostgresQueue]:
    async with await PostgresQueue.open(postgres_url) as queue:
        yield queue


@pytest.fixture
async def direct(postgres_url: str) -> AsyncIterator[Any]:
    """A connection to the test's database, past the queue."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def bare(empty_postgres_url: str) -> AsyncIterator[Any]:
    """A connection to a database that nobody has migrated."""
    connection = await asyncpg.connect(empty_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def uncommitted(postgres_url: str) -> Uncommitted:
    """Make queues whose work is done, but not committed until their block ends."""

    @asynccontextmanager
    async def uncommitted() -> AsyncIterator[PostgresQueue]:
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                yield PostgresQueue(_OneTransaction(connection))
        finally:
            await connection.close()

    return uncommitted


class _OneTransaction(Server):
    """Makes every call on one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _persist(self, attempt: Callable[[bool], Any]) -> Any:
        return await attempt(False)

    async def _fetch(self, query: str, *args: Any, within: float | None = None) -> list[Any]:
        return list(await self._connection.fetch(query, *args))


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Stand:
    return STANDS["postgres"](request.getfixturevalue)
