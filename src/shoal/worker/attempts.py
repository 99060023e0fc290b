"""One attempt at a task: what it waits for, its cache lookup, its step, and the requests of the step."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial

import msgspec

from shoal.core.errors import InvalidInput, StepEnded, StepTimeout
from shoal.core.events import STARTS_LATE, as_event
from shoal.core.http import BodySink, LiveTab, OnHop, OnRequest, Request, Response
from shoal.core.model import ZERO, Lease, Outcome, RunSettings, Task
from shoal.core.redact import Redact, redacted
from shoal.core.request_options import POST
from shoal.core.tasks import TIMER_ERROR, call_at, exact_time
from shoal.core.urls import host_of
from shoal.fetch.cache.fetcher import CacheLookup
from shoal.fetch.contract import Fetcher
from shoal.fetch.deadlines import Deadline, Deadlines
from shoal.fetch.robots.robots import Robots
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.scrape.step import Step, Subject
from shoal.worker.background import Background
from shoal.worker.counters import TaskCounts, WorkerCounters
from shoal.worker.failures.brake import PrivateHostCheck
from shoal.worker.failures.pages import FailedPageStore
from shoal.worker.files.downloads import Downloads
from shoal.worker.hook_calls import HookCalls, is_cancelled
from shoal.worker.ipc.step_markers import StepMarkers
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.recrawl import EarlierVisits, VisitStore
from shoal.worker.scheduler import Scheduler
from shoal.worker.secrets import headers_towards
from shoal.worker.slots import MAX_PAGE_BYTES, MemoryLimit
from shoal.worker.telemetry.observer import Observer, fetch_observed
from shoal.worker.turns import HostTurns

LATE_LOG_INTERVAL_SECONDS = 60.0

log = logging.getLogger(__name__)


class TaskWaits:
    """Lets tasks wait as the scheduler decides; calls `on_slot_free` when a slow request leaves its slot."""

    def __init__(
        self,
        scheduler: Scheduler,
        on_slot_free: Callable[[], None] = lambda: None,
        *,
        max_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        """Hold at most this many bytes of pages."""
        self._scheduler, self._slots, self.memory = scheduler, scheduler.slots, MemoryLimit(max_bytes)
        self._on_slot_free = on_slot_free
        self._slow_timer: asyncio.TimerHandle | None = None  # one for all requests
        self._turns: dict[int, asyncio.Future[None]] = {}  # of tasks whose step waits
        self._memory_freed = asyncio.Event()
        self._late_logged_at: float | None = None

    def try_request(self, start: ScheduledLease) -> bool:
        """Return whether a task may still send its request; if so, the request counts as sent."""
        now = exact_time()
        may_request = self._scheduler.try_request(start, now)
        if may_request and self._scheduler.is_always_late:
            self._log_late_start(now, now - start.due)
        return may_request

    async def take_turn(self, start: ScheduledLease) -> bool:
        """Wait for the turn of a task, and return whether it may send a request in it: if this is on time."""
        while (wait := self._scheduler.request_at(start) - exact_time()) > TIMER_ERROR:
            await asyncio.sleep(wait)
        return self._scheduler.try_request(start, exact_time(), is_strict=True)

    def miss_turn(self, lease: Lease) -> None:
        """Record that a task ends without a request for its page: no pause follows it."""
        self._scheduler.miss_turn(lease)

    def _log_late_start(self, now: float, late: float) -> None:
        if self._late_logged_at is None or now - self._late_logged_at >= LATE_LOG_INTERVAL_SECONDS:
            self._late_logged_at = now
            log.warning(
                "Requests start late more often than not (now by %.0f ms). If several workers share a host, "
                "their requests to it may follow each other sooner than its delay: start fewer workers on "
                "this machine, or use a queue that responds faster",
                1000 * late,
                extra=as_event(STARTS_LATE),
            )

    def wait_for_host(self, number: int) -> None:
        """Record that a task now waits for its host, and for nothing in this worker."""
        self._slots.wait_for_host(number, exact_time())
        if self._slow_timer is None:
            self._set_slow_timer()

    def stop_waiting(self, number: int) -> None:
        """Record that a task no longer waits for its host; it has a slot again."""
        self._slots.stop_waiting(number, exact_time())

    async def begin_step(self, number: int) -> None:
        """Wait until a task may run its step; `end_step` must follow, whatever happens here."""
        if not self._slots.begin_step(number, exact_time()):
            turn = self._turns[number] = asyncio.get_running_loop().create_future()
            await turn

    def end_step(self, number: int) -> None:
        """Record that a task's step has ended, or was given up before it began."""
        self._turns.pop(number, None)
        following = self._slots.end_step(number)
        turn = None if following is None else self._turns.pop(following, None)
        if turn and not turn.done():  # else its task was cancelled, and passes the turn on when it ends
            turn.set_result(None)

    async def reserve_memory(self, number: int, size: int) -> None:
        """Reserve more bytes for a page, and wait until they are available."""
        self.memory.reserve(number, size)
        while self.memory.must_wait(number):
            self._memory_freed.clear()
            await self._memory_freed.wait()

    def release_memory(self, number: int) -> None:
        """Release the bytes of a page."""
        if self.memory.release(number):
            self._memory_freed.set()

    def _set_slow_timer(self) -> None:
        due = self._slots.next_slow_at
        self._slow_timer = None if due is None else call_at(due, self._free_slow)

    def _free_slow(self) -> None:
        is_any = self._slots.free_slow(exact_time())
        self._set_slow_timer()
        if is_any:
            self._on_slot_free()


class NothingKnown(Exception):
    """Whether robots.txt allows a page is not known without a request to its host."""


class TooLate(Exception):
    """No request may be sent to the host now: its turn has passed, or was used for robots.txt."""


class TooSoon(Exception):
    """The turn of a task was planned before the crawl delay of its host was known."""

    def __init__(self, delay: timedelta) -> None:
        self.delay = delay
        super().__init__(f"its host wants {delay.total_seconds():g} s between requests")


# Called with every error of a task; may return the outcome in place of the usual one.
OnError = Callable[[Lease, Exception], Outcome | None]


class ProcessorTools(msgspec.Struct, frozen=True):
    """The fetchers and other resources that tasks are processed with."""

    fetchers: Mapping[str, Fetcher]
    robots: Robots | None
    threads: Executor
    markers: StepMarkers
    revisits: "VisitStore | None" = None
    redact: Redact = redacted
    observers: Sequence[Observer] = ()
    on_error: OnError | None = None
    failed_pages: FailedPageStore | None = None
    private: PrivateHostCheck | None = None
    downloads: Downloads | None = None
    turns: HostTurns | None = None  # of the requests that steps send; without, they do not wait


PageLookup = CacheLookup | EarlierVisits


class TaskAttempt(msgspec.Struct):
    """One attempt at a task, and whether a request was sent to its host."""

    start: ScheduledLease
    number: int
    lookup: PageLookup | None = None  # what the lookup before its start has found
    asked: bool = False
    sent: bool = False  # a request that must not be repeated may have been sent: delivery is at most once
    has_request: bool = False  # its step waits for a request to the host of its lease
    turn_used: bool = False  # for robots.txt, so that the page has to wait for another turn
    live: LiveTab | None = None  # the browser tab that shows the page
    response: Response | None = None
    sink: BodySink | None = None  # the file that a download is written to
    deadline: Deadline | None = None  # of its step
    is_over: bool = False
    counts: TaskCounts | None = None  # most attempts have nothing to count

    @property
    def task(self) -> Task:
        return self.start.lease.task

    def mark_sent(self) -> None:
        """Record that a request which must not be repeated may have been sent."""
        self.sent = True

    def new_counts(self) -> TaskCounts:
        """Return the counts of this attempt, to count in them."""
        if self.counts is None:
            self.counts = TaskCounts()
        return self.counts


LookUp = Callable[[Lease, int], Awaitable[PageLookup | None]]


class CacheLookups:
    """Looks pages up in the cache or in earlier visits while they are prefetched, by number of the lease."""

    def __init__(
        self,
        look_up: LookUp,
        background: Background,
        *,
        on_hit: Callable[[Lease], None],
        forget: Callable[[int], None],
    ) -> None:
        self._look_up, self._background, self._on_hit, self._forget = look_up, background, on_hit, forget
        self._tasks: dict[int, asyncio.Task[PageLookup | None]] = {}

    def start(self, lease: Lease, number: int) -> None:
        """Look up the page of a lease in the background; `on_hit` is called if it needs no request."""
        self._tasks[number] = self._background.start(self._run(lease, number))

    async def take(self, number: int) -> PageLookup | None:
        """Return what the lookup for a lease found, when it has ended; None if there was none."""
        task = self._tasks.pop(number, None)
        return await task if task else None

    def cancel(self, number: int) -> None:
        """Drop the lookup for a lease that is released, if there is one."""
        if task := self._tasks.pop(number, None):
            task.cancel()
            self._forget(number)

    async def _run(self, lease: Lease, number: int) -> PageLookup | None:
        lookup = await self._look_up(lease, number)
        if lookup and lookup.is_hit:
            self._on_hit(lease)
        return lookup


class StepRunner:
    """Runs steps that may begin, on the loop or in a thread."""

    def __init__(self, tools: ProcessorTools, deadlines: Deadlines) -> None:
        self._markers, self._threads, self._deadlines = tools.markers, tools.threads, deadlines

    async def run(self, step: Step, subject: Subject, attempt: TaskAttempt, time_limit: timedelta) -> Harvest:
        """Return what a step yields; raises StepTimeout, StepEnded, and what the step raises."""
        number = attempt.number
        try:
            with self._deadlines.within(time_limit) as attempt.deadline:
                if step.is_async:
                    if isinstance(subject, Page) and subject.is_long:
                        # Parsing takes long enough to delay everything else on the loop.
                        await asyncio.to_thread(subject.prepare)
                    return await self._markers.run_marked(number, step.harvest_async(subject))
                return await self._run_in_thread(step, subject, number)
        except TimeoutError as error:
            raise StepTimeout(step.name, time_limit.total_seconds()) from error
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise StepEnded(step.name, error) from error
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # a panic of a library in Rust, for one
            raise StepEnded(step.name, error) from error  # it must end neither the worker nor the run

    async def _run_in_thread(self, step: Step, subject: Subject, number: int) -> Harvest:
        def harvest() -> Harvest:
            with self._markers.mark_thread(number):
                try:
                    return step.harvest(subject)
                except (Exception, KeyboardInterrupt, asyncio.CancelledError):
                    raise
                except BaseException as error:
                    # Here: a future does not carry these from one thread to another as it does others.
                    raise StepEnded(step.name, error) from error

        # In the task's context, so that what the step logs is attributed to its task.
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, harvest)


def suspended(attempt: TaskAttempt) -> AbstractContextManager[None]:
    """Return a context whose time does not count for the step of a task, if one runs."""
    return attempt.deadline.suspend() if attempt.deadline else nullcontext()


class StepRequests:
    """Sends requests for the steps of one scraper; `limits` are the run's."""

    limits: RunSettings = RunSettings()

    def __init__(
        self,
        scraper: Scraper,
        tools: ProcessorTools,
        hooks: HookCalls,
        waits: TaskWaits,
        tally: WorkerCounters,
    ) -> None:
        self._scraper, self._tools, self._hooks = scraper, tools, hooks
        self._waits, self._tally = waits, tally

    async def send(self, attempt: TaskAttempt, task: Task, timeout: timedelta | None) -> Response:
        """Return the response to a request, whatever its status; raises FetchError, RobotsDenied."""
        if attempt.is_over:
            raise InvalidInput("A step has called request after its end; await it in the step")
        request = self._build_for_step(attempt, task, timeout)
        settings, number, hooks = self._scraper.settings, attempt.number, self._scraper.hooks
        if hooks.request:
            changed = await self._hooks.change_request(request, task, number, settings.lease)
            if isinstance(changed, Response):
                return changed
            request = changed
        await self._check_robots(request.url)
        async with self._turn(attempt, request):
            if attempt.is_over:
                raise InvalidInput("The step of this request has ended; await it in the step")
            response = await fetch_observed(self._tools.fetchers["http"], request, self._tools.observers)
        self._tally.bytes += len(response.body)
        if hooks.response:
            response = await self._hooks.change_response(response, task, number, settings.lease)
        return response

    @asynccontextmanager
    async def _turn(self, attempt: TaskAttempt, request: Request) -> AsyncIterator[None]:
        """Wait for a slot of the host and a turn; the slot is used until the response has arrived."""
        turns, host, url = self._tools.turns, host_of(request.url), attempt.task.url
        if turns is None:
            yield
            return
        # The lease is one of the `per_host` of its host, and the request for its page has ended.
        is_own = url is not None and host_of(url) == host and not attempt.has_request
        attempt.has_request |= is_own
        try:
            async with AsyncExitStack() as held:
                # A fleet may wait for a host for long: that is no fault of the step, which may retry nothing.
                with suspended(attempt):
                    if not is_own:
                        slot = turns.slot(host, self.limits.per_host, request.timeout)
                        await held.enter_async_context(slot)
                    await self.wait_for_turn(request.url)
                yield
        finally:
            attempt.has_request &= not is_own

    def build(
        self,
        task: Task,
        number: int,
        headers: Mapping[str, str],
        *,
        timeout: timedelta | None,
        on_hop: OnHop,
        on_sent: OnRequest | None = None,
    ) -> Request:
        """Return the request of a task; without a timeout it has that of its site or of the scraper."""
        assert task.url is not None, "handler() has checked it"
        settings, options = self._scraper.settings, task.request
        return Request(
            url=task.url,
            headers={**headers, **options.headers} if options else headers,
            timeout=timeout or settings.sites.find(task.url).timeout or settings.timeout,
            on_hop=on_hop,
            on_bytes=lambda size: self._waits.reserve_memory(number, size),
            post=options.post if options else None,
            method=options.method if options else POST,
            on_sent=on_sent,
        )

    def _build_for_step(self, attempt: TaskAttempt, task: Task, timeout: timedelta | None) -> Request:
        assert task.url is not None
        settings, origin, step = self._scraper.settings, attempt.task.url, self._scraper.handler(attempt.task)
        request = self.build(
            task,
            attempt.number,
            headers_towards(settings, task.url, origin=origin),
            timeout=timeout or step.timeout,
            on_hop=partial(self._check_hop, attempt),
            on_sent=attempt.mark_sent if self._scraper.at_most_once(step) else None,
        )
        return replace(request, is_foreign=not settings.scope.allows(task.url, origin=origin))

    async def wait_for_turn(self, url: str) -> None:
        """Wait until a host may get a request that has no lease of it."""
        if self._tools.turns:
            await self._tools.turns.take(host_of(url), self._gap_of(url))

    async def _check_hop(self, attempt: TaskAttempt, url: str) -> None:
        await self._check_robots(url)
        with suspended(attempt):
            await self.wait_for_turn(url)

    async def _check_robots(self, url: str) -> None:
        if self._tools.robots:
            await self._tools.robots.check(url)

    def _gap_of(self, url: str) -> timedelta:
        crawl_delay = self._tools.robots.crawl_delay(url) if self._tools.robots else None
        site = self._scraper.settings.sites.find(url)
        return max(self.limits.host_delay, crawl_delay or ZERO, site.delay or ZERO)
