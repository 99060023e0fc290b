"""Observers of a worker: callbacks for logs, metrics and traces; without any, nothing is called."""

import time
from collections.abc import Collection, Sequence

from shoal.core.errors import QueueError
from shoal.core.http import Request, Response
from shoal.core.model import Bury, Done, Fate, Lease, Outcome, Release, Retry
from shoal.fetch.cache.fetcher import CacheLookup, CachingFetcher
from shoal.fetch.contract import Fetcher
from shoal.worker.counters import MetricCounters


class Observer:
    """Callbacks for what a worker does; times are those of the machine's monotonic clock."""

    def on_claim(self) -> None:
        """The queue has replied to a claim."""

    def on_begin(self, lease: Lease) -> None:
        """The worker starts a task."""

    def on_queue_error(self, verb: str, error: QueueError) -> None:
        """An operation of the queue has failed."""

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        """An outcome was settled."""

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        """A fetch has ended; without a response, the status is None."""

    def on_step_end(self, lease: Lease, began: float, ended: float) -> None:
        """The step of a task has ended; `began` is when it was ready to run."""


async def fetch_observed(
    fetcher: Fetcher, request: Request, observers: Sequence[Observer], lookup: CacheLookup | None = None
) -> Response:
    """Fetch a page, from the cache or its host; a page from the cache is no fetch that observers see."""
    if isinstance(fetcher, CachingFetcher):
        lookup = lookup or await fetcher.lookup(request)
        if lookup.page:
            return lookup.page
        fetching = fetcher.send(request, lookup)
    else:
        fetching = fetcher.fetch(request)
    if not observers:
        return await fetching
    began, status = time.monotonic(), None
    try:
        response = await fetching
        status = response.status
        return response
    finally:
        for observer in observers:
            observer.on_fetch(request.url, began, time.monotonic(), status)


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
