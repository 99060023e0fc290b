"""The time limit of a worker pool."""

import asyncio
from datetime import timedelta

import pytest

from shoal.fleet.run import host
from shoal.fleet.run.host import time_limit

SOON = timedelta(milliseconds=20)


class Pool:
    def __init__(self):
        self.in_hand, self.stops, self.is_asked = 3, 0, asyncio.Event()

    def stop(self):
        self.stops += 1
        self.is_asked.set()
        return self.stops


async def asked(pool):
    async with asyncio.timeout(10):
        await pool.is_asked.wait()
    pool.is_asked.clear()


async def test_at_the_time_limit_running_tasks_are_finished_and_then_released(monkeypatch):
    monkeypatch.setattr(host, "FINISH_TIMEOUT", SOON)
    pool, said = Pool(), []
    with time_limit(SOON, pool, said.append):
        await asked(pool)
        assert said == ["Time limit reached: finishing 3 tasks."]
        await asked(pool)
    assert (pool.stops, said[1:]) == (2, ["Returning 3 tasks to the queue."])


async def test_workers_that_are_already_stopping_are_not_stopped_again():
    pool = Pool()
    pool.stop()
    with time_limit(SOON, pool, pytest.fail):
        await asyncio.sleep(3 * SOON.total_seconds())
    assert pool.stops == 1


@pytest.mark.parametrize("span", [None, SOON])
async def test_after_the_block_no_worker_is_stopped(span):
    pool = Pool()
    with time_limit(span, pool, pytest.fail):
        pass
    await asyncio.sleep(3 * SOON.total_seconds())
    assert pool.stops == 0
