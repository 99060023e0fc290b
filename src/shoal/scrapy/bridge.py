"""Connects a worker of Shoal with Scrapy's engine; both live in one event loop."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import Settings

from shoal.core.errors import InvalidInput, NotNow, QueueError
from shoal.core.model import SECOND, Done, EnqueueReport, Fate, Outcome, Reject, Run, RunSettings, Task
from shoal.core.tasks import exchange_last, repeat, start_in, wait_for_event
from shoal.fleet.scraper_stats import read_stats, write_stats
from shoal.queue.contract import Queue
from shoal.scrape.harvest import Harvest
from shoal.scrape.requests import own_step
from shoal.scrape.settings.sites import SiteTable
from shoal.scrapy.compat import (
    has_receivers,
    install_reactor,
    is_running,
    restore_start_requests,
    send_idle,
    set_up_reactor,
)
from shoal.scrapy.outside import OutsideRequests
from shoal.scrapy.pacing import COMPLAINTS, HostPacer
from shoal.scrapy.results import TaskResults, current_results, spider_closed, stats_as_json
from shoal.scrapy.scheduler import IDLE_TASK, OPENING, START_STEP, EngineScheduler
from shoal.scrapy.settings import OF_PROCESS, FleetLimits, engine_settings, fates
from shoal.scrapy.sharing import NAME, STATE, VERSIONS, SharedAttributes, SharedCookies, VersionedNotes
from shoal.scrapy.values import UnstorableRequest
from shoal.worker.telemetry.observer import Observer

UNFINISHED = (NotNow, UnstorableRequest)  # what a task has yielded before these is not stored
OPEN_INTERVAL = timedelta(milliseconds=1)  # between two looks whether the engine runs
IDLE_INTERVAL = timedelta(seconds=5)  # between two signals `spider_idle`, as in Scrapy
STATS_INTERVAL = timedelta(seconds=5)  # of the statistics of a worker
# Between two looks at the limits of the run: at least, and at most while nothing is stored here.
LIMITS_INTERVAL, LIMITS_MAX_WAIT_SECONDS = timedelta(milliseconds=50), 1.0
CLOSED = "CloseSpider: "  # before the reason of a run that ended because its spider was closed

log = logging.getLogger(__name__)


class EngineBridge(Observer):
    """Hands the tasks of a worker to the engine, and returns what comes of them."""

    scheduler: EngineScheduler
    queue: Queue
    run: Run
    _attributes: SharedAttributes
    sites: SiteTable  # the settings of some hosts
    owns_engine = True  # with settings for a worker, rather than that of `scrapy crawl`

    def __init__(self, spider_class: type[Spider], settings: Settings) -> None:
        """Connect a spider; the settings are those of its project, with those of the spider."""
        self.spider_class, self.settings = spider_class, settings
        restore_start_requests(spider_class)
        self.process_id = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.is_drained = False
        self.closed_for = ""  # the reason with which the spider was closed
        self._unsettled: dict[str, TaskResults] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._repeated: list[asyncio.Task[None]] = []
        self._limits = FleetLimits(settings)
        self._stored = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._crawling: asyncio.Task[None] | None = None
        self._crawler: Crawler | None = None
        self._pacer: HostPacer | None = None
        self._cookies: SharedCookies | None = None

    async def open(self, queue: Queue, run: Run, args: Mapping[str, Any]) -> None:
        """Open the spider in this worker; raises what its components raise."""
        self.attach(queue, run)
        settings = self.settings.copy()
        settings.setdict(engine_settings(self.settings), priority="cmdline")
        has_reactor = settings.getbool("TWISTED_REACTOR_ENABLED")
        if has_reactor:
            install_reactor(asyncio.get_running_loop())
        self._crawler = crawler = Crawler(self.spider_class, settings)
        if has_reactor:
            set_up_reactor(crawler)
        token = OPENING.set(self)
        self._crawling = asyncio.create_task(crawler.crawl_async(**args))
        OPENING.reset(token)
        # The engine has no event for it: it runs a moment after `spider_opened`.
        while not self._crawling.done() and not is_running(crawler):
            await asyncio.sleep(OPEN_INTERVAL.total_seconds())
        if self._crawling.done():
            await self._crawling
            raise InvalidInput(f"The spider {self.spider_class.name!r} was closed while it was opened")

    def attach(self, queue: Queue, run: Run) -> None:
        """Use this queue and this run."""
        self.queue, self.run = queue, run
        start = self.settings["SCHEDULER_START_MEMORY_QUEUE"] or self.settings["SCHEDULER_MEMORY_QUEUE"]
        order = -1 if "Lifo" in str(start) else 1
        self.outside = OutsideRequests(queue, run.id, self._write_shared, self.on_enqueued, order)
        self.start_granted: asyncio.Future[TaskResults | None] = asyncio.get_running_loop().create_future()

    async def shut(self) -> None:
        """Close the spider because the run is drained, or the worker is stopped."""
        if self._crawling and self._crawler:
            reason = "shutdown"
            with suppress(QueueError):
                is_left = (await self.queue.stats(self.run.id)).remaining
                reason = await self.ended_for() or ("shutdown" if is_left else "finished")
            self.is_drained = True  # not before: an engine that is idle closes the spider by itself
            if not (self._crawling.done() or self.scheduler.engine.is_closing):
                await self._crawler.engine.close_spider_async(reason=reason)
            await self._crawling
            await exchange_last(self.write_stats, STATS_INTERVAL)
        await self.outside.flush()

    def read_settings(self, settings: RunSettings) -> None:
        """Keep to changed settings of the run."""
        if self._pacer:
            self._pacer.read_settings(settings)

    def deny_start(self) -> None:
        """Let `start()` yield nothing here, or give its task up if it has not ended."""
        if not self.start_granted.done():
            self.start_granted.set_result(None)
        elif results := self.start_granted.result():
            results.give_up()

    async def on_open(self, scheduler: EngineScheduler) -> None:
        """Connect the engine's parts; called when the engine opens its scheduler."""
        self.scheduler = scheduler
        crawler, engine, spider = scheduler.crawler, scheduler.engine, scheduler.crawler.spider
        self._pacer = HostPacer(self.queue, self.run.settings, self.sites)
        engine.around_download(self._pacer.turn)
        crawler.signals.connect(self._on_response, signals.response_downloaded)
        values, notes = scheduler.codec.values, VersionedNotes(self.queue, self.run.id)
        if (jars := engine.cookie_jars()) is not None:
            self._cookies = SharedCookies(notes, jars, values)
        assert spider
        vars(spider).setdefault(STATE, {})  # as Scrapy's extension for JOBDIR does
        self._attributes = SharedAttributes(notes, spider, values)
        duties = [(self.write_stats, STATS_INTERVAL), (self._follow_run, STATS_INTERVAL)]
        if self._limits:
            duties.append((self._check_limits, LIMITS_INTERVAL))
        self._repeated = [asyncio.create_task(repeat(duty, every)) for duty, every in duties]

    async def on_close(self, reason: str) -> None:
        """End the run if the spider was closed by its own code; called when the engine closes."""
        await self.outside.flush()
        if not self.is_drained:
            await self.end_run(reason)

    async def end_run(self, reason: str) -> None:
        """End the run although tasks are left, for the reason that the spider was closed with."""
        if not await self.ended_for():
            is_limit = reason.startswith("closespider_")
            await self.queue.finish(self.run.id, f"{reason} reached" if is_limit else f"{CLOSED}{reason}")

    async def ended_for(self) -> str:
        """Return the reason to close this spider if the run has ended before its tasks; nothing if not."""
        run = await self.queue.run(self.run.id)
        reason = run.reason.removesuffix(" reached").removeprefix(CLOSED)
        return (reason or str(run.state)) if run.state.has_ended else ""

    def begin_close(self, reason: str) -> None:
        """Begin no more tasks."""
        self.closed_for = reason
        self.deny_start()
        for task in self._repeated:
            task.cancel()

    async def _follow_run(self) -> None:
        """Close the spider if the run has ended: its `start()` would go on, and this worker wait for it."""
        if not self.closed_for and (reason := await self.ended_for()):
            self.close_spider(reason)

    def close_spider(self, reason: str) -> None:
        """Close the spider in the background, because closing ends the task that has found the reason."""
        if not (self.closed_for or self._closing):
            close = self.scheduler.crawler.engine.close_spider_async(reason=reason)
            self._closing = asyncio.create_task(close)

    async def write_stats(self) -> None:
        """Store the statistics of this worker, whose sum with those of the others is that of the run."""
        stats = stats_as_json(self.scheduler.crawler.stats.get_stats())
        await write_stats(self.queue, self.run.id, self.process_id, stats)

    async def run_request(self, task: Task) -> Harvest:
        """Have the engine process the request of a task."""
        self._check_open()
        payload = dict(task.payload)
        await self._read_shared(payload.pop(VERSIONS, {}))
        # A task that was typed as a URL has no payload: it is for `parse`.
        request = self.scheduler.codec.decode(payload or {"url": task.url})
        results = TaskResults(_key_of(task), request, own_step())
        self.scheduler.hand_out(request, results)
        return await self._collect(task, results)

    async def run_start(self, task: Task) -> Harvest:
        """Have the engine read `start()`."""
        self._check_open()
        if self.start_granted.done():
            raise NotNow("start() has begun in this worker already", SECOND)
        for fate in fates(self.settings):
            if not fate.is_used and (self.owns_engine or not fate.what.startswith(OF_PROCESS)):
                log.warning("%s", fate)
        await self._read_shared({})
        results = TaskResults(START_STEP)
        self.start_granted.set_result(results)
        try:
            harvest = await self._collect(task, results)
        finally:
            await self.outside.flush()  # also what it has yielded before it failed
        if self.owns_engine and has_receivers(self.scheduler.crawler, signals.spider_idle):
            harvest.follow.append(IDLE_TASK)
        return harvest

    async def run_idle(self) -> Harvest:
        """Send `spider_idle` when all else of the run is done, until nothing adds requests or objects."""
        self._check_open()
        if (await self.queue.stats(self.run.id)).remaining > 1:
            raise NotNow("spider_idle is sent when all other tasks are done", SECOND)
        await self._read_shared({})
        raised = send_idle(self.scheduler.crawler)
        added = (await self.outside.flush()).added
        if added or any(isinstance(one, DontCloseSpider) for one in raised):
            raise NotNow("spider_idle is sent again", SECOND if added else IDLE_INTERVAL)
        for one in raised:
            self.close_spider(one.reason)
        return Harvest()

    async def _collect(self, task: Task, results: TaskResults) -> Harvest:
        """Wait for the end of a task, and return what is to be stored."""
        await results.wait()
        if results.failure and (results.is_empty or isinstance(results.failure, UNFINISHED)):
            raise results.failure
        self._keep_errors(task, results)
        follow = await self._write_shared(results.follow)
        self._unsettled[results.key] = results
        return Harvest(items=results.items, rejects=results.rejects, follow=follow)

    def _keep_errors(self, task: Task, results: TaskResults) -> None:
        """Store the exceptions of callbacks as rejects, since Scrapy keeps what was yielded before them."""
        if results.errors and self.settings.get("SHOAL_ON_ERROR", "keep") == "bury":
            raise InvalidInput(results.errors[0])
        failures = [str(results.failure)] if results.failure else []
        for reason in [*results.errors, *failures]:
            results.rejects.append(Reject(data={"url": task.url}, reason=reason))

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        """Remember which requests the store has, now that a task is settled."""
        results = self._unsettled.pop(_key_of(outcome.lease.task), None)
        if results and isinstance(outcome, Done) and fate is Fate.ACCEPTED:
            self.scheduler.remember(results.fingerprints)
            self._stored.set()
            self.on_stored(results.objects)

    async def _check_limits(self) -> None:
        """Close the spider when the run has reached a limit; looks again when items were stored."""
        await wait_for_event(self._stored, LIMITS_MAX_WAIT_SECONDS)
        self._stored.clear()
        counts = await self.queue.stats(self.run.id)
        stats: dict[str, Any] = {}
        if self._limits.needs_stats:
            await self.write_stats()
            stats = await read_stats(self.queue, self.run.id)
        if reason := self._limits.reached(counts, stats, time.monotonic()):
            self.close_spider(reason)

    def on_stored(self, items: list[Any]) -> None:
        """Do nothing: the feeds of a run are written from the store when it ends."""

    def on_enqueued(self, report: EnqueueReport) -> None:
        """Count the requests of `start()` and of extensions that the queue has not added."""
        refused = {"scheduler/known": report.known, "scheduler/invalid": report.invalid}
        for name, count in (refused | {"dupefilter/filtered": report.duplicate}).items():
            if count:
                self.scheduler.crawler.stats.inc_value(name, count)
                self.scheduler.crawler.stats.inc_value("scheduler/enqueued", -count)

    def _check_open(self) -> None:
        if self.closed_for or self.scheduler.engine.is_closing:
            raise spider_closed()

    def _on_response(self, response: Any, request: Request) -> None:
        if self._cookies:
            self._cookies.touch(request, response)
        if results := current_results():
            results.step.count_bytes(len(response.body))
        if response.status in COMPLAINTS and self._pacer and request.url.startswith("http"):
            start_in(self._background, self._pacer.complain(response))

    async def _read_shared(self, versions: Mapping[str, int]) -> None:
        """Read the cookies and attributes that a task needs."""
        await self._attributes.read(versions.get(NAME, 0))
        if self._cookies:
            await self._cookies.read({name: one for name, one in versions.items() if name != NAME})

    async def _write_shared(self, follow: list[Task]) -> list[Task]:
        """Store the cookies and attributes that have changed, and let these tasks name the versions."""
        await self._attributes.write()
        if self._cookies:
            await self._cookies.write()
        common = {NAME: self._attributes.version} if self._attributes.version else {}
        changed = []
        for one in follow:
            versions = common | (self._cookies.versions_for(one) if self._cookies else {})
            changed.append(replace(one, payload={**one.payload, VERSIONS: versions}) if versions else one)
        return changed


def _key_of(task: Task) -> str:
    """Return the key of a task; one that was typed as a URL has none."""
    return task.key or task.url or ""
