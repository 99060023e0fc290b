"""`scrapy crawl` with Shoal's scheduler opens the run that its processes share."""

import asyncio
import logging

from shoal.core.model import Done
from shoal.fleet.job import Job
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from shoal.scrapy.inside import open_shared_run


async def test_processes_that_begin_at_once_share_a_run(tmp_path):
    url = f"sqlite:///{tmp_path}/queue.db"
    job = Job(scraper=Scraper("quotes"), name="quotes", reference="", queue_url=url, joins=True)
    async with open_queue(url) as queue:
        opened = await asyncio.gather(*(open_shared_run(queue, job) for _ in range(4)))
        (run,) = await queue.runs()
        assert {one.run.id for one in opened} == {run.id}
        assert (await queue.stats(run.id)).pending == 1


async def test_a_run_that_is_named_and_has_ended_is_said_to_have_nothing_left(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/queue.db"
    job = Job(scraper=Scraper("quotes"), name="quotes", reference="", queue_url=url, joins=True)
    async with open_queue(url) as queue:
        await open_shared_run(queue, job, "nightly")
        assert not caplog.records
        (lease,) = (await queue.claim("w", run_id="nightly")).leases
        await queue.settle([Done(lease)])
        with caplog.at_level(logging.WARNING):
            await open_shared_run(queue, job, "nightly")
    assert "Run nightly has no task left" in caplog.text
