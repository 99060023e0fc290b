"""`scrapy crawl` with Shoal's scheduler: a worker of Shoal lives in Scrapy's event loop."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler

from shoal.core.errors import InvalidSetting, ScraperBusy
from shoal.core.model import EnqueueReport, Run
from shoal.core.tasks import exchange_last
from shoal.fleet.dead_workers import new_worker_id, release_leases_of
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.run.open_run import OpenedRun, find_unfinished, open_job
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrapy.bridge import STATS_INTERVAL, EngineBridge
from shoal.scrapy.feeds import StoredFeeds
from shoal.scrapy.project import SpiderScraper
from shoal.scrapy.scheduler import START_TASK, EngineScheduler
from shoal.scrapy.settings import check_settings, engine_settings
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.process.inline import InlineWorker

DEFAULT_QUEUE = "sqlite:///shoal.db"
START_RETRY_SECONDS = 0.2
RESUMABLE = ("finished", "shutdown")  # other reasons end the run, with the tasks that are left

log = logging.getLogger(__name__)


class CrawlScheduler(EngineScheduler):
    """SCHEDULER = "shoal.scrapy.Scheduler": `scrapy crawl` works on a run of SHOAL_QUEUE."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        """Return the scheduler of a crawler; Scrapy's own for what `scrapy shell` and the like request."""
        # `scrapy parse`, `fetch` and `check` replace `start()`; `scrapy shell` has an engine, but no crawl.
        has_start_of_command = crawler.spidercls.start.__module__.startswith("scrapy.commands.")
        if has_start_of_command or not crawler.crawling:
            return build_from_crawler(Scheduler, crawler)
        return cls(crawler, CrawlBridge(crawler))


class CrawlBridge(EngineBridge):
    """Runs a worker for an engine that Scrapy has started, until the spider is closed.

    When the run is drained the worker ends, and another one begins if the spider adds requests once more.
    """

    owns_engine = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler.spidercls, crawler.settings)
        self._own_crawler, self._stack = crawler, AsyncExitStack()
        self._more = asyncio.Event()
        self._worker: InlineWorker | None = None
        self._working: asyncio.Task[None] | None = None
        self._feeds: StoredFeeds | None = None

    async def open(self, *_: Any) -> None:
        """Do nothing: Scrapy has opened the spider."""

    async def shut(self) -> None:
        """Do nothing: the spider outlives the worker."""

    async def on_open(self, scheduler: EngineScheduler) -> None:
        """Open the run, and start a worker on it; raises InvalidSetting."""
        check_settings(self.settings, but="SCHEDULER")
        url = self.settings.get("SHOAL_QUEUE") or DEFAULT_QUEUE
        queue = await self._stack.enter_async_context(open_queue(url))
        project = self.settings.copy()
        project.frozen = False
        scraper = SpiderScraper.of(self.spider_class, project, lambda *_: self)
        job = Job(scraper=scraper, name=scraper.name, reference="", queue_url=url, joins=True)
        opened = await open_shared_run(queue, job, self.settings.get("SHOAL_RUN"))
        run = opened.run
        log.info("Run %s in %s", run.id, shown_queue(url))
        await release_leases_of(queue, run)
        self.attach(queue, run)
        is_new = not (await queue.stats(run.id)).items
        self._feeds = StoredFeeds(self._own_crawler, is_new=is_new)
        await super().on_open(scheduler)
        scheduler.engine.lift_limits(engine_settings(self.settings))
        self._working = asyncio.create_task(self._work(opened.job, run))

    async def on_close(self, reason: str) -> None:
        """Stop the worker, and end the run if the spider was closed by its own code."""
        await self.outside.flush()
        self._more.set()
        if self._worker and self._worker.is_running:
            self._worker.stop()
        if self._working:
            await self._working
        if self._background:
            await asyncio.wait(self._background)
        if reason not in RESUMABLE and (await self.queue.stats(self.run.id)).remaining:
            await self.end_run(reason)
        await exchange_last(self.write_stats, STATS_INTERVAL)
        if self._feeds:
            await self._feeds.close(self.queue, self.run.id)
        await self._stack.aclose()

    def on_stored(self, items: list[Any]) -> None:
        """Write items to the feeds."""
        if self._feeds:
            self._feeds.add(items)

    def on_enqueued(self, report: EnqueueReport) -> None:
        """Let the worker look for the requests that came from outside of tasks."""
        super().on_enqueued(report)
        self.is_drained = False
        self._more.set()
        if self._worker:
            self._worker.wake_up()

    async def _work(self, job: Job, run: Run) -> None:
        while not self.closed_for:
            self._more.clear()
            config = msgspec.structs.replace(job.worker_config(run), worker_id=new_worker_id())
            self._worker = InlineWorker(self.queue, config, run, job.scraper)
            try:
                reason = await self._worker.run()
            except Exception:
                log.exception("The worker has failed; its tasks go on when the spider is started again")
                self.close_spider("shutdown")
                return
            if reason is ExitReason.BUDGET or (ended := await self.ended_for()):
                self.close_spider("closespider_pagecount" if reason is ExitReason.BUDGET else ended)
                return
            # A request may have been enqueued after the last claim of the worker.
            self.is_drained = not (self.outside or self._more.is_set())
            if not self.start_granted.done():
                self.start_granted.set_result(None)  # it was read to its end before this process was started
            if self.is_drained:
                self.scheduler.engine.wake()
                await self._more.wait()


async def open_shared_run(queue: Queue, job: Job, run_id: str | None = None) -> OpenedRun:
    """Open the unfinished run of a spider, or a new one; processes that begin at once share it."""
    while True:
        with suppress(ScraperBusy):
            async with ScraperLock(queue, job.name, ["starting"]):
                with suppress(InvalidSetting):  # all runs are finished
                    run_id = run_id or (await find_unfinished(queue, job.name)).id
                opened = await open_job(queue, job, run_id=run_id)
                await queue.enqueue(opened.run.id, [START_TASK])
                if not (await queue.stats(opened.run.id)).remaining:
                    log.warning("Run %s has no task left. For a new one, name another in SHOAL_RUN", run_id)
                return opened
        await asyncio.sleep(START_RETRY_SECONDS)
