"""The scheduler that Scrapy's engine asks for requests: they are tasks that a worker of Shoal has leased.

The engine is Scrapy's own. It downloads a request and runs its callback; what comes of it is collected in
the results of the task. When the engine removes the request, all is done, and the worker settles the task.
"""

import logging
from asyncio import shield
from collections import deque
from collections.abc import AsyncIterator
from contextvars import ContextVar
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro

from shoal.core.errors import InvalidInput, InvalidUrl
from shoal.core.failures import error_with_place
from shoal.core.model import HIGHEST_PRIORITY, LOWEST_PRIORITY, Task
from shoal.core.urls import canonical
from shoal.scrapy.codec import RequestCodec
from shoal.scrapy.compat import EngineAccess
from shoal.scrapy.results import CURRENT, TaskResults, current_results
from shoal.scrapy.settings import NO_DUPEFILTER
from shoal.scrapy.values import UnstorableRequest

if TYPE_CHECKING:
    from shoal.scrapy.bridge import EngineBridge

REQUEST_STEP, START_STEP, IDLE_STEP = "request", "start", "idle"
START_TASK = Task(step=START_STEP, key=START_STEP, priority=HIGHEST_PRIORITY)
IDLE_TASK = Task(step=IDLE_STEP, key=IDLE_STEP, priority=LOWEST_PRIORITY)
USUAL_PRIORITY = 4  # of a request with Scrapy's default priority, 0
MAX_KNOWN = 1_000_000  # fingerprints that are remembered as stored
MAX_INLINED = 1_000  # requests that run within one task

log = logging.getLogger(__name__)
# The bridge of the crawler that is being opened: Scrapy makes the scheduler itself.
OPENING: ContextVar["EngineBridge | None"] = ContextVar("the bridge of a new scheduler", default=None)


class RequestFailed(InvalidInput):
    """A request failed for good, and no errback has handled that."""


class EngineScheduler(BaseScheduler):
    """Hands leased requests to the engine, and collects what it makes of each."""

    codec: RequestCodec
    engine: EngineAccess

    def __init__(self, crawler: Crawler, bridge: "EngineBridge") -> None:
        self.crawler, self.bridge = crawler, bridge
        self._stats, self._fingerprint = crawler.stats, crawler.request_fingerprinter.fingerprint
        self._is_shared = not crawler.settings["SCHEDULER_START_MEMORY_QUEUE"]  # with all other requests
        self._filters = crawler.settings["DUPEFILTER_CLASS"] != NO_DUPEFILTER
        self._inlines = crawler.settings.get("SHOAL_UNSERIALIZABLE", "inline") == "inline"
        self._waiting: deque[tuple[Request, TaskResults]] = deque()
        self._in_engine: dict[Request, TaskResults] = {}
        self._known: dict[bytes, None] = {}  # fingerprints of stored requests, the oldest first
        self._reported: set[str] = set()
        self._from_outside = count()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the scheduler of a worker; raises InvalidInput outside of one."""
        if bridge := OPENING.get():
            return cls(crawler, bridge)
        raise InvalidInput('Outside of shoal run, write: SCHEDULER = "shoal.scrapy.Scheduler"')

    def open(self, spider: Spider) -> Any:
        """Connect to the engine, which calls this."""
        self.codec, self.engine = RequestCodec(spider), EngineAccess(self.crawler.engine)
        self.engine.on_removed(self._on_removed)
        self.engine.replace_start(self._wait_for_start)
        self.engine.on_download_error(self._on_download_error)
        connect = self.crawler.signals.connect
        connect(self._on_item, signals.item_scraped)
        connect(self._on_reject, signals.item_dropped)
        connect(self._on_reject, signals.item_error)
        connect(self._on_spider_error, signals.spider_error)
        return deferred_from_coro(self.bridge.on_open(self))

    def close(self, reason: str) -> Any:
        """Give up the tasks that the engine has not begun; they are released."""
        if not hasattr(self.bridge, "run"):  # it could not be opened
            return None
        self.bridge.begin_close(reason)
        for _, results in self._waiting:
            results.give_up()
        self._waiting.clear()
        return deferred_from_coro(self.bridge.on_close(reason))

    def has_pending_requests(self) -> bool:
        """Return whether the engine must not close yet."""
        return bool(self._waiting or self.bridge.outside) or not self.bridge.is_drained

    def next_request(self) -> Request | None:
        """Return the next leased request, and let what the engine starts now belong to its task."""
        while self._waiting:
            request, results = self._waiting.popleft()
            if not results.is_over:
                self._in_engine[request] = results
                CURRENT.set(results)
                self._stats.inc_value("scheduler/dequeued")
                return request
        CURRENT.set(None)
        return None

    def enqueue_request(self, request: Request) -> bool:
        """Add a request to the results of the current task, or to the queue; return False for a duplicate."""
        results = current_results()
        fingerprint = self._fingerprint(request)
        is_filtered = self._filters and not request.dont_filter
        if is_filtered and (fingerprint in self._known or (results and fingerprint in results.fingerprints)):
            self._stats.inc_value("dupefilter/filtered")
            return False
        try:
            task = self._make_task(request, results, fingerprint, is_filtered=is_filtered)
        except UnstorableRequest as error:
            return self._run_inline(request, results, error)
        if results is not None and is_filtered:
            results.fingerprints.add(fingerprint)
        if results is None or results.key == START_STEP:
            self.bridge.outside.add(task, is_start=self._is_shared or "is_start_request" in request.meta)
        else:
            results.follow.append(task)
        self._stats.inc_value("scheduler/enqueued")
        return True

    def hand_out(self, request: Request, results: TaskResults) -> None:
        """Let the engine have the request of a leased task."""
        self._waiting.append((request, results))
        self.engine.wake()

    def remember(self, fingerprints: set[bytes]) -> None:
        """Record that the store has these requests."""
        self._known.update(dict.fromkeys(fingerprints))
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def _make_task(
        self, request: Request, results: TaskResults | None, fingerprint: bytes, *, is_filtered: bool
    ) -> Task:
        url = _url_of(request)
        # Keys of one host are neighbours in the store.
        site = url[: url.find("/", 8) + 1] if url else "scrapy://other/"
        key = fingerprint.hex() if is_filtered else self._own_key(results, fingerprint)
        priority = max(LOWEST_PRIORITY, min(HIGHEST_PRIORITY, USUAL_PRIORITY + request.priority))
        return Task(
            url=url, step=REQUEST_STEP, key=site + key, priority=priority, payload=self.codec.encode(request)
        )

    def _own_key(self, results: TaskResults | None, fingerprint: bytes) -> str:
        """Return a key that no other request has, and that stays the same when its task is repeated."""
        if results is None:
            source, number = self.bridge.process_id, next(self._from_outside)
        else:
            source, number = results.key, results.repeats.get(fingerprint, 0)
            results.repeats[fingerprint] = number + 1
        return blake2b(f"{source} {number} ".encode() + fingerprint, digest_size=20).hexdigest()

    def _run_inline(self, request: Request, results: TaskResults | None, error: UnstorableRequest) -> bool:
        """Run a request that cannot be stored within the task that has yielded it."""
        if results is None:
            raise error
        if not self._inlines or results.inlined >= MAX_INLINED:
            results.failure = error
            return False
        if error.what not in self._reported:  # not by request: there may be thousands
            self._reported.add(error.what)
            log.warning("%s It is sent by this worker, within the task of %s", error, results.request)
        if not request.dont_filter and self._filters:
            results.fingerprints.add(self._fingerprint(request))
        results.inlined += 1
        results.begin()
        self._stats.inc_value("scheduler/unserializable")
        self.hand_out(request, results)
        return True

    def _on_removed(self, request: Request) -> None:
        if results := self._in_engine.pop(request, None):
            results.end()

    async def _wait_for_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what `start()` yields, in the worker that has its task, and nothing in the others."""
        results = await shield(self.bridge.start_granted)  # the engine cancels this when it stops
        if results is None:
            return
        CURRENT.set(results)  # of the engine's task that reads this, and does nothing else
        is_first = True
        try:
            async for one in start:
                if not isinstance(one, Request):
                    results.begin()  # until the item has passed the pipelines
                yield one
                if is_first:  # it is sent before others, whatever their priorities
                    await self.bridge.outside.flush()
                    is_first = False
        except CloseSpider:
            raise  # it has ended, and the engine closes the spider
        except Exception as error:
            results.failure = InvalidInput(f"start() failed: {error_with_place(error)}")
            raise
        except BaseException:  # the engine was stopped: another worker or the next start reads the rest
            results.give_up()
            raise
        finally:
            results.end()

    def _on_item(self, item: Any, response: Any) -> None:
        results = current_results()
        if results is None:
            log.error("An item came after the end of its task, and is not stored: %r", item)
            return
        results.add_item(item)
        _end_start_item(results, response)

    def _on_reject(self, item: Any, response: Any, exception: Any = None, failure: Any = None) -> None:
        if results := current_results():
            error = exception or failure.value
            results.add_reject(item, f"{type(error).__name__}: {error}")
            _end_start_item(results, response)

    def _on_spider_error(self, failure: Any) -> None:
        if results := current_results():
            results.errors.append(error_with_place(failure.value))

    def _on_download_error(self, error: BaseException) -> None:
        if (results := current_results()) and not results.failure:
            results.failure = RequestFailed(f"{type(error).__name__}: {error}")


def _end_start_item(results: TaskResults, response: Any) -> None:
    if results.key == START_STEP and response is None:
        results.end()


def _url_of(request: Request) -> str | None:
    """Return the URL by which the host of a request is paced; None for one that has no host."""
    if request.url[:4].lower() != "http":
        return None
    try:
        return canonical(request.url)
    except InvalidUrl:
        return None  # Scrapy fails on it, and calls the errback
