"""Observers of a worker: wrappers around its queue, its fetchers and its step markers report to them.

Without observers the worker gets the unwrapped objects, so that observation costs nothing unless it is on.
"""

import time
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import coroutine
from typing import Any, TypeVar, cast

from shoal.core.errors import QueueError
from shoal.core.http import Request, Response
from shoal.core.model import Bury, Done, Fate, Grant, Lease, Outcome, Release, Retry
from shoal.fetch.cache.fetcher import MISS, CacheLookup, CachingFetcher
from shoal.fetch.contract import Fetcher
from shoal.queue.contract import Queue
from shoal.worker.counters import MetricCounters
from shoal.worker.ipc.step_markers import StepMarkers

T = TypeVar("T")


class Observer:
    """Callbacks for what a worker does; times are those of the machine's monotonic clock."""

    def on_claim(self, leases: Sequence[Lease]) -> None:
        """The queue has replied to a claim."""

    def on_begin(self, lease: Lease) -> None:
        """The worker starts a task."""

    def on_queue_error(self, verb: str, error: QueueError) -> None:
        """An operation of the queue has failed."""

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        """An outcome was settled."""

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        """A fetch has ended; without a response, the status is None."""

    def on_step_end(self, number: int, began: float, ended: float) -> None:
        """The step of the lease with this number has ended."""


class Observers(Observer):
    """Passes every call on to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def on_claim(self, leases: Sequence[Lease]) -> None:
        for observer in self._observers:
            observer.on_claim(leases)

    def on_begin(self, lease: Lease) -> None:
        for observer in self._observers:
            observer.on_begin(lease)

    def on_queue_error(self, verb: str, error: QueueError) -> None:
        for observer in self._observers:
            observer.on_queue_error(verb, error)

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        for observer in self._observers:
            observer.on_settle(outcome, fate, began, ended)

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        for observer in self._observers:
            observer.on_fetch(url, began, ended, status)

    def on_step_end(self, number: int, began: float, ended: float) -> None:
        for observer in self._observers:
            observer.on_step_end(number, began, ended)


class ObservedQueue:
    """A queue whose claims and settlements are observed; everything else goes straight to it."""

    def __init__(self, queue: Queue, observer: Observer) -> None:
        self._queue, self._observer = queue, observer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(self, worker_id: str, **options: Any) -> Grant:
        try:
            grant = await self._queue.claim(worker_id, **options)
        except QueueError as error:
            self._observer.on_queue_error("claim", error)
            raise
        self._observer.on_claim(grant.leases)
        return grant

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        began = time.monotonic()
        try:
            fates = await self._queue.settle(outcomes)
        except QueueError as error:
            self._observer.on_queue_error("settle", error)
            raise
        ended = time.monotonic()
        for outcome, fate in zip(outcomes, fates, strict=True):
            self._observer.on_settle(outcome, fate, began, ended)
        return fates


class ObservedFetcher:
    """A fetcher whose fetches are observed."""

    def __init__(self, fetcher: Fetcher, observer: Observer) -> None:
        self._fetcher, self._observer = fetcher, observer

    async def fetch(self, request: Request) -> Response:
        return await _time_fetch(self._observer, request, self._fetcher.fetch(request))

    async def close(self) -> None:
        await self._fetcher.close()


class ObservedCache(CachingFetcher):
    """A cache in front of a fetcher: observed are the requests to hosts, not the cache hits."""

    def __init__(self, cache: CachingFetcher, observer: Observer) -> None:
        self._cache, self._observer = cache, observer

    async def fetch(self, request: Request) -> Response:
        look = await self.lookup(request)
        return look.page or await self.send(request, look)

    async def lookup(self, request: Request) -> CacheLookup:
        return await self._cache.lookup(request)

    async def send(self, request: Request, look: CacheLookup = MISS) -> Response:
        return await _time_fetch(self._observer, request, self._cache.send(request, look))

    async def close(self) -> None:
        await self._cache.close()


async def _time_fetch(
    observer: Observer, request: Request, fetching: Coroutine[Any, Any, Response]
) -> Response:
    began, status = time.monotonic(), None
    try:
        response = await fetching
        status = response.status
        return response
    finally:
        observer.on_fetch(request.url, began, time.monotonic(), status)


class ObservedStepMarkers(StepMarkers):
    """Step markers that report when each step began and ended."""

    def __init__(self, markers: StepMarkers, on_step_end: Callable[[int, float, float], None]) -> None:
        self._markers, self._on_step_end = markers, on_step_end

    def close(self) -> None:
        self._markers.close()

    def set_loop(self, number: int) -> None:
        self._markers.set_loop(number)

    def mark_progress(self, number: int, is_in_progress: int) -> None:
        self._markers.mark_progress(number, is_in_progress)

    @contextmanager
    def mark_thread(self, number: int) -> Iterator[None]:
        began = time.monotonic()
        try:
            with self._markers.mark_thread(number):
                yield
        finally:
            self._on_step_end(number, began, time.monotonic())

    @coroutine
    def run_marked(self, number: int, step: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        began = time.monotonic()
        try:
            return (yield from self._markers.run_marked(number, step))
        finally:
            self._on_step_end(number, began, time.monotonic())


def observe_queue(queue: Queue, observer: Observer | None) -> Queue:
    """Return the queue for a worker, observed if there is an observer."""
    # It forwards every method of a queue, future ones too, without naming them.
    return cast("Queue", ObservedQueue(queue, observer)) if observer else queue


def observe_fetcher(fetcher: Fetcher, observer: Observer | None) -> Fetcher:
    """Return the fetcher for a worker, observed if there is an observer."""
    if observer is None:
        return fetcher
    if isinstance(fetcher, CachingFetcher):
        return ObservedCache(fetcher, observer)
    return ObservedFetcher(fetcher, observer)


OTHER = "other"
_NAMES: dict[type, str] = {Done: "done", Retry: "retry", Bury: "bury", Release: "release"}


class MetricsObserver(Observer):
    """Counts outcomes by step, and fetches by duration."""

    def __init__(self, steps: Collection[str]) -> None:
        self.measures = MetricCounters()
        self._steps = frozenset(steps)

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        name = "stale" if fate is Fate.STALE else _NAMES[type(outcome)]
        # A producer may write any step into a task; a label needs few distinct values.
        step = outcome.lease.task.step
        self.measures.count_task(name, step if step in self._steps else OTHER)

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        self.measures.count_fetch(ended - began, status)
