"""Maintenance while a fleet works: once per interval over all machines, and never silently stopped."""

import asyncio
import logging

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import SECOND
from shoal.fleet import maintenance
from shoal.fleet.maintenance import MIN_INTERVAL, maintained, reclaim_if_due
from tests.conformance.backends import VirtualClock
from tests.conformance.helpers import HOUR
from tests.conformance.model import ModelQueue


class Counting(ModelQueue):
    """A queue that counts its reclaims, and may fail at them."""

    def __init__(self, clock):
        super().__init__(clock.now)
        self.reclaims, self.failures = 0, []
        self.reclaimed = asyncio.Event()

    async def reclaim(self):
        self.reclaims += 1
        if self.failures:
            raise self.failures.pop(0)
        self.reclaimed.set()
        return await super().reclaim()


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def queue(clock):
    return Counting(clock)


@pytest.fixture
def hasty(monkeypatch):
    """Reclaim all the time, even right after another machine."""
    monkeypatch.setattr(maintenance, "MAX_FIRST_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(maintenance, "ATTEMPT_INTERVAL_SECONDS", (0.001, 0.002))
    monkeypatch.setattr(reclaim_if_due, "__kwdefaults__", {"min_interval": 0 * SECOND, "seen": None})


async def test_of_many_machines_one_reclaims_and_the_next_a_while_later(queue, clock):
    await asyncio.gather(*(reclaim_if_due(queue) for _ in range(20)))
    await reclaim_if_due(queue)
    assert queue.reclaims == 1
    await clock.forward(MIN_INTERVAL)
    await reclaim_if_due(queue)
    assert queue.reclaims == 2


@pytest.mark.parametrize("error", [QueueUnavailable("store", "it is away"), RuntimeError("a bug")])
async def test_a_failure_is_logged_and_the_next_attempt_follows(queue, hasty, caplog, error):
    queue.failures = [error]
    async with asyncio.timeout(10), maintained(queue):
        await queue.reclaimed.wait()
    assert queue.reclaims >= 2
    assert [record.levelno >= logging.WARNING for record in caplog.records] == [True]
    assert str(error) in caplog.text


async def test_it_ends_with_its_block(queue, hasty):
    async with maintained(queue):
        pass
    count = queue.reclaims
    await asyncio.sleep(0)
    assert queue.reclaims == count
    assert len(asyncio.all_tasks()) == 1


async def test_a_reclaim_before_the_clock_was_set_back_does_not_put_off_the_next_for_long(queue, clock):
    await clock.forward(HOUR)
    await reclaim_if_due(queue)
    await clock.forward(-HOUR)
    first = await reclaim_if_due(queue)
    assert queue.reclaims == 1
    await reclaim_if_due(queue, seen=first)
    assert queue.reclaims == 2
    await reclaim_if_due(queue, seen=first)  # as another machine that was later
    assert queue.reclaims == 2
