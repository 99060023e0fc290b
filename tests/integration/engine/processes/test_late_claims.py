"""Claims whose answer comes late: after their worker's death, or when what they bring has run out."""

import asyncio
import os
import signal
from datetime import timedelta

import asyncpg
import pytest

from shoal.core.model import Task
from shoal.fleet import job as job_module
from shoal.queue.open import open_queue
from tests.integration.engine.conftest import Bench
from tests.integration.engine.origin import Answer

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


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
async def test_leases_that_come_after_their_worker_s_end_are_handed_back_or_buried_soon(
    postgres_url, tmp_path, delivery
):
    bench, pids = Bench(tmp_path, postgres_url), []
    bench.witness.on_saw = lambda snapshot, pool: pids.extend(pool.pids)
    async with open_queue(postgres_url) as queue:
        await queue.start_run("late", run_id="late")
        await queue.enqueue("late", [Task(step="work", key=str(number)) for number in range(5)])
    locking = await asyncpg.connect(postgres_url)
    async with asyncio.timeout(45):  # a lease is waited for a minute
        async with locking.transaction():
            await locking.execute("LOCK TABLE shoal.host_queue IN EXCLUSIVE MODE")
            code = CODE.replace("retries=2", f"delivery={delivery!r}")
            running = asyncio.create_task(bench.run(code, [], run_id="late", resume=True))
            await held_up(postgres_url)
            while not pids:
                await asyncio.sleep(0.05)
            os.kill(pids[0], signal.SIGKILL)
            while not bench.witness.said_lines:  # that another worker takes its place
                await asyncio.sleep(0.05)
        summary = await running
    await locking.close()
    done, dead = summary.snapshot.stats.completed, summary.snapshot.stats.dead
    if delivery == "at_least_once":
        assert (done, dead) == (5, 0)
        return
    # What the dead worker's claim brought is not handed out again; the rest is done by the next one.
    assert done + dead == 5 and dead
    errors = {letter.error for letter in await bench.dead("late")}
    assert errors == {"WorkerDied: the worker died, and delivery is at_most_once"}


SLOW = """
    import asyncio
    from itertools import count
    from pathlib import Path
    from shoal.queue.sqlite.queue import SqliteQueue

    claim, slow, numbers = SqliteQueue.claim, Path({folder!r}) / "slow", count(1)

    async def answered_late(self, *args, **named):
        grant = await claim(self, *args, **named)
        if grant.leases and next(numbers) == 1 and not slow.exists():
            slow.touch()
            await asyncio.sleep(5)
        return grant

    SqliteQueue.claim = answered_late
    late = Scraper("late", rate=None, robots=False, per_host=4)

    @late.step
    async def page(page: Page):
        yield {{"url": page.url}}
"""


async def test_what_ran_out_while_the_answer_was_on_its_way_is_not_begun(bench, origin, monkeypatch):
    monkeypatch.setattr(job_module, "LEASE", timedelta(seconds=2))
    origin.answer = lambda path: Answer(after=0.05)
    urls = [f"{origin.url}/{number}" for number in range(120)]
    summary = await bench.run(SLOW.format(folder=str(bench.folder)), urls, workers=2)
    assert (bench.folder / "slow").exists()
    assert summary.snapshot.stats.completed == 120
    assert set(origin.visits.values()) == {1}
