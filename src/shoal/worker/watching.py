"""Looking on while a worker works, from outside of it: at its queue, its fetcher and its marks.

A worker that nobody watches is handed the things themselves, so that watching costs nothing unless it is on.
"""

import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import coroutine
from typing import Any, TypeVar, cast

from shoal.core.errors import QueueError
from shoal.core.exchange import Request, Response
from shoal.core.model import Fate, Grant, Lease, Outcome
from shoal.fetch.cache import NOTHING_KEPT, CachingFetcher, Look
from shoal.fetch.contract import Fetcher
from shoal.queue.contract import Queue
from shoal.worker.marks import Marks

T = TypeVar("T")


class Watcher:
    """Who looks on; every moment is of the machine's monotonic clock."""

    def claimed(self, leases: Sequence[Lease]) -> None:
        """The queue answered a claim."""

    def begun(self, lease: Lease) -> None:
        """The worker begins with a task."""

    def refused(self, verb: str, error: QueueError) -> None:
        """The queue failed at a verb."""

    def settled(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        """An outcome was settled."""

    def fetched(self, url: str, began: float, ended: float, status: int | None) -> None:
        """A page came home, or did not: then there is no status."""

    def handled(self, number: int, began: float, ended: float) -> None:
        """The step of the lease with this number has come to its end."""


class Everyone(Watcher):
    """Several who look on."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def claimed(self, leases: Sequence[Lease]) -> None:
        for watcher in self._watchers:
            watcher.claimed(leases)

    def begun(self, lease: Lease) -> None:
        for watcher in self._watchers:
            watcher.begun(lease)

    def refused(self, verb: str, error: QueueError) -> None:
        for watcher in self._watchers:
            watcher.refused(verb, error)

    def settled(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        for watcher in self._watchers:
            watcher.settled(outcome, fate, began, ended)

    def fetched(self, url: str, began: float, ended: float, status: int | None) -> None:
        for watcher in self._watchers:
            watcher.fetched(url, began, ended, status)

    def handled(self, number: int, began: float, ended: float) -> None:
        for watcher in self._watchers:
            watcher.handled(number, began, ended)


class WatchedQueue:
    """A queue whose claims and settlements are looked at; everything else goes straight to it."""

    def __init__(self, queue: Queue, watcher: Watcher) -> None:
        self._queue, self._watcher = queue, watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(self, worker_id: str, **options: Any) -> Grant:
        try:
            grant = await self._queue.claim(worker_id, **options)
        except QueueError as error:
            self._watcher.refused("claim", error)
            raise
        self._watcher.claimed(grant.leases)
        return grant

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        began = time.monotonic()
        try:
            fates = await self._queue.settle(outcomes)
        except QueueError as error:
            self._watcher.refused("settle", error)
            raise
        ended = time.monotonic()
        for outcome, fate in zip(outcomes, fates, strict=True):
            self._watcher.settled(outcome, fate, began, ended)
        return fates


class WatchedFetcher:
    """A fetcher whose exchanges are looked at."""

    def __init__(self, fetcher: Fetcher, watcher: Watcher) -> None:
        self._fetcher, self._watcher = fetcher, watcher

    async def fetch(self, request: Request) -> Response:
        return await _timed(self._watcher, request, self._fetcher.fetch(request))

    async def close(self) -> None:
        await self._fetcher.close()


class WatchedCache(CachingFetcher):
    """A cache in front of a fetcher: looked at is what its hosts are asked for, not what it has."""

    def __init__(self, cache: CachingFetcher, watcher: Watcher) -> None:
        self._cache, self._watcher = cache, watcher

    async def fetch(self, request: Request) -> Response:
        look = await self.look(request)
        return look.page or await self.ask(request, look)

    async def look(self, request: Request) -> Look:
        return await self._cache.look(request)

    async def ask(self, request: Request, look: Look = NOTHING_KEPT) -> Response:
        return await _timed(self._watcher, request, self._cache.ask(request, look))

    async def close(self) -> None:
        await self._cache.close()


async def _timed(watcher: Watcher, request: Request, fetching: Coroutine[Any, Any, Response]) -> Response:
    began, status = time.monotonic(), None
    try:
        response = await fetching
        status = response.status
        return response
    finally:
        watcher.fetched(request.url, began, time.monotonic(), status)


class WatchedMarks(Marks):
    """Marks, and when each step began and ended."""

    def __init__(self, marks: Marks, on_handled: Callable[[int, float, float], None]) -> None:
        self._marks, self._on_handled = marks, on_handled

    def close(self) -> None:
        self._marks.close()

    @contextmanager
    def on_loop(self, number: int) -> Iterator[None]:
        with self._marks.on_loop(number):
            yield

    @contextmanager
    def in_thread(self, number: int) -> Iterator[None]:
        began = time.monotonic()
        try:
            with self._marks.in_thread(number):
                yield
        finally:
            self._on_handled(number, began, time.monotonic())

    @coroutine
    def in_loop(self, number: int, step: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        began = time.monotonic()
        try:
            return (yield from self._marks.in_loop(number, step))
        finally:
            self._on_handled(number, began, time.monotonic())


def watched_queue(queue: Queue, watcher: Watcher | None) -> Queue:
    """Return the queue as a worker is to have it."""
    # It has every verb of a queue, those of tomorrow too, without naming them.
    return cast("Queue", WatchedQueue(queue, watcher)) if watcher else queue


def watched_fetcher(fetcher: Fetcher, watcher: Watcher | None) -> Fetcher:
    """Return the fetcher as a worker is to have it."""
    if watcher is None:
        return fetcher
    if isinstance(fetcher, CachingFetcher):
        return WatchedCache(fetcher, watcher)
    return WatchedFetcher(fetcher, watcher)
