"""Expired notes are removed in batches."""

from datetime import datetime, timedelta

import pytest

from shoal.queue.sqlite import notes
from shoal.queue.sqlite.queue import SqliteQueue
from tests.unit.queue.sqlite.conftest import NOON

MINUTE = timedelta(minutes=1)


class Clock:
    """A clock that a test moves."""

    time = NOON

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def queue(address, clock):
    async with await SqliteQueue.open(address.path, now=clock) as queue:
        yield queue


def kept(store):
    return store.connection.execute("SELECT count(*) FROM note").fetchone()[0]


async def test_expired_notes_go_some_at_a_time_with_later_writes_and_reclaims(store, queue, clock):
    await queue.write_notes("cache", {str(n): b"x" for n in range(250)}, ttl=MINUTE)
    clock.time += MINUTE
    await queue.write_notes("other", {"a": b"1"})
    assert kept(store) == 251 - notes.MAX_EXPIRED
    await queue.reclaim()
    assert kept(store) == 251 - 2 * notes.MAX_EXPIRED
    await queue.trim_notes("cache", max_bytes=0)
    assert kept(store) == 1
