"""A store without its thread, and a fixed clock."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.queue.sqlite.connection import SqliteAddress, WriteHandler, migrate
from shoal.queue.sqlite.queue import SqliteQueue

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


@pytest.fixture
def address(tmp_path):
    return SqliteAddress(tmp_path / "queue.db", busy_timeout=timedelta(milliseconds=50))


@pytest.fixture
def writer(address):
    return WriteHandler(address, lambda: NOON)


@pytest.fixture
def store(writer):
    """A migrated store in the test's own thread."""
    store = writer.open()
    with store.connection:
        migrate(store)
    yield store
    writer.close(store)


@pytest.fixture
async def queue(address):
    async with await SqliteQueue.open(address.path, now=lambda: NOON, patience=address.busy_timeout) as queue:
        yield queue
