"""A worker follows the settings of its run while it works, and before it works again."""

import asyncio
from datetime import timedelta

import pytest

from shoal.worker import run_settings as module
from shoal.worker.run_settings import SettingsFollower, read_note
from tests.conformance.backends import VirtualClock
from tests.conformance.model import ModelQueue

OFTEN, NEVER = timedelta(milliseconds=1), timedelta(days=1)


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


async def test_a_worker_that_rests_reads_no_settings_until_it_works_again(known, reads):
    asked = asyncio.Queue()

    def is_resting():
        asked.put_nowait(True)
        return asked.qsize() < 5

    follower = SettingsFollower(None, "r", known, None, is_resting=is_resting)
    running = asyncio.create_task(follower.run(OFTEN))
    async with asyncio.timeout(10):
        await reads.get()
    running.cancel()
    assert asked.qsize() >= 5
    await follower.check()
    assert reads.qsize() >= 1


async def test_a_worker_that_is_told_of_a_change_reads_at_once_even_if_it_rests(known, reads):
    follower = SettingsFollower(None, "r", known, None, is_resting=lambda: True)
    running = asyncio.create_task(follower.run(NEVER))
    follower.check_soon()
    async with asyncio.timeout(10):
        await reads.get()
    running.cancel()
