"""A fleet that pauses between tasks fetches the pages that its pauses allow, also after changes."""

import asyncio
import time
from contextlib import suppress

import pytest

from shoal.cli.options.workers import read_job
from shoal.core.model import Task
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import open_job
from shoal.fleet.run.settings import change_settings
from shoal.queue.open import open_queue

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, pause="1.6-4s")

@pages.step
async def page(page: Page):
    yield {}
"""
WORKERS, WINDOW = 10, 10.0


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_a_fleet_that_pauses_keeps_its_pace_when_rate_and_pause_are_changed(bench, origin):
    job = read_job(
        bench.write(SCRAPER), queue=bench.queue_url, workers=WORKERS, allow_private=["127.0.0.0/8"]
    )

    async def share(mean_pause):
        """Return which part of the pages that the pauses allow is fetched from now on."""
        await asyncio.sleep(5)  # until all workers follow
        began, before = time.monotonic(), len(origin.moments)
        await asyncio.sleep(WINDOW)
        return (len(origin.moments) - before) / (WORKERS * (time.monotonic() - began) / mean_pause)

    async with open_queue(bench.queue_url) as queue:
        opened = await open_job(queue, job)
        run_id = opened.run.id
        await queue.enqueue(
            run_id, [Task(url=f"{origin.url}/{number}", step="page") for number in range(2_000)]
        )
        working = asyncio.create_task(launch(opened, bench.witness))
        while len(origin.moments) < WORKERS:
            await asyncio.sleep(0.1)
        shares = {"without a rate": await share(2.8)}
        for change, mean_pause in (({"rate": "5/s"}, 2.8), ({"rate": "50/s", "pause": "1-2s"}, 1.5)):
            await change_settings(queue, run_id, change)
            shares[str(change)] = await share(mean_pause)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    # At 5/s the workers also wait for each other. When a missed start cost a pause, a third was lost.
    assert all(0.8 < part < 1.15 for part in shares.values()), shares
