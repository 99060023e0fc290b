"""A claim that its worker's death overtakes: what it brings is not waited for."""

import asyncio
import os
import signal

import asyncpg

from shoal.core.model import Task
from shoal.queue.open import open_queue
from tests.integration.engine.conftest import Bench

WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
CODE = """
    late = Scraper("late", retries=2)

    @late.step(fetch=None)
    async def work(task: Task):
        yield {"key": task.key}
"""


async def held_up(url):
    """Wait until a claim stands before a locked table."""
    connection = await asyncpg.connect(url)
    while not await connection.fetchval(WAITING):
        await asyncio.sleep(0.05)
    await connection.close()


async def test_leases_that_come_after_their_worker_s_end_are_handed_back_soon(postgres_url, tmp_path):
    bench, pids = Bench(tmp_path, postgres_url), []
    bench.witness.on_saw = lambda snapshot, crew: pids.extend(crew.pids)
    async with open_queue(postgres_url) as queue:
        await queue.start_run("late", run_id="late")
        await queue.enqueue("late", [Task(step="work", key=str(number)) for number in range(5)])
    locking = await asyncpg.connect(postgres_url)
    async with asyncio.timeout(45):  # a lease is waited for a minute
        async with locking.transaction():
            await locking.execute("LOCK TABLE shoal.lane IN EXCLUSIVE MODE")
            running = asyncio.create_task(bench.run(CODE, [], run_id="late", resume=True))
            await held_up(postgres_url)
            while not pids:
                await asyncio.sleep(0.05)
            os.kill(pids[0], signal.SIGKILL)
            while not bench.witness.said_lines:  # that another worker takes its place
                await asyncio.sleep(0.05)
        summary = await running
    await locking.close()
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (5, 0)
