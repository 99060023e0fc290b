"""A worker follows the settings of its run while it works."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.worker import run_settings as module
from shoal.worker.run_settings import SettingsFollower, read_note
from tests.conformance.backends import VirtualClock
from tests.conformance.model import ModelQueue

NEVER = timedelta(days=1)


@pytest.fixture
async def known():
    return await read_note(ModelQueue(VirtualClock().now), "r")


@pytest.fixture
def reads(monkeypatch, known):
    reads = asyncio.Queue()

    async def read(queue, run_id):
        reads.put_nowait(run_id)
        return known

    monkeypatch.setattr(module, "read_note", read)
    return reads


async def test_a_worker_that_is_told_of_a_change_reads_at_once(known, reads):
    follower = SettingsFollower(None, "r", known, None)
    running = asyncio.create_task(follower.run(NEVER))
    follower.check_soon()
    async with asyncio.timeout(10):
        await reads.get()
    running.cancel()


async def test_a_worker_that_cannot_read_a_change_tries_again_soon(known, reads, monkeypatch):
    read, failures = module.read_note, [QueueUnavailable("db", "away")]

    async def fail_once(queue, run_id):
        if failures:
            raise failures.pop()
        return await read(queue, run_id)

    monkeypatch.setattr(module, "read_note", fail_once)
    monkeypatch.setattr(module, "FOLLOW_INTERVAL", timedelta(milliseconds=1))
    follower = SettingsFollower(None, "r", known, None)
    running = asyncio.create_task(follower.run(NEVER))
    follower.check_soon()
    async with asyncio.timeout(10):
        await reads.get()
    running.cancel()
    assert not failures
