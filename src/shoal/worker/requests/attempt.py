"""What tasks are processed with, and one attempt at a task."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.http import BodySink, LiveTab, Response
from shoal.core.model import Lease, Outcome, Task
from shoal.core.redact import Redact, redacted
from shoal.fetch.cache.fetcher import CacheLookup
from shoal.fetch.contract import Fetcher
from shoal.fetch.robots.robots import Robots
from shoal.worker.counters import TaskCounts
from shoal.worker.failures.pages import FailedPageStore
from shoal.worker.files.downloads import Downloads
from shoal.worker.ipc.step_markers import StepMarkers
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.recrawl.store import VisitStore
from shoal.worker.requests.turns import HostTurns


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


@dataclass(frozen=True, slots=True)
class ProcessorTools:
    """The fetchers and other resources that tasks are processed with."""

    fetchers: Mapping[str, Fetcher]
    robots: Robots | None
    threads: Executor
    markers: StepMarkers
    revisits: "VisitStore | None" = None
    redact: Redact = redacted
    on_begin: Callable[[Lease], None] | None = None
    on_error: OnError | None = None
    failed_pages: FailedPageStore | None = None
    on_private: Callable[[Lease, str], None] | None = None  # its host is private, and not allowed
    downloads: Downloads | None = None
    turns: HostTurns | None = None  # of the requests that steps send; without, they do not wait


@dataclass(slots=True)
class TaskAttempt:
    """One attempt at a task, and whether a request was sent to its host."""

    start: ScheduledLease
    number: int
    lookup: CacheLookup | None = None  # what the cache lookup before its start has found
    asked: bool = False
    turn_used: bool = False  # for robots.txt, so that the page has to wait for another turn
    live: LiveTab | None = None  # the browser tab that shows the page
    response: Response | None = None
    sink: BodySink | None = None  # the file that a download is written to
    is_over: bool = False
    counts: TaskCounts | None = None  # most attempts have nothing to count

    @property
    def task(self) -> Task:
        return self.start.lease.task

    def new_counts(self) -> TaskCounts:
        """Return the counts of this attempt, to count in them."""
        if self.counts is None:
            self.counts = TaskCounts()
        return self.counts
