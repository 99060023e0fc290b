"""A store without its thread, and a clock that stands still."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.queue.sqlite.database import Address
from shoal.queue.sqlite.migrate import migrate
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.queue.sqlite.writer import Writer

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


@pytest.fixture
def address(tmp_path):
    return Address(tmp_path / "queue.db", patience=timedelta(milliseconds=50))


@pytest.fixture
def writer(address):
    return Writer(address, lambda: NOON)


@pytest.fixture
def store(writer):
    """A migrated store, in the hands of the test's own thread."""
    store = writer.open()
    with store.connection:
        migrate(store)
    yield store
    writer.close(store)


@pytest.fixture
async def queue(address):
    async with await SqliteQueue.open(address.path, now=lambda: NOON, patience=address.patience) as queue:
        yield queue
