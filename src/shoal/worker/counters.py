"""Counters of one worker: what it has done, and what metrics need in addition."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import msgspec

from shoal.core.failures import error_text
from shoal.core.model import Bury, Done, Fate, Outcome, Release, Retry
from shoal.core.redact import shown_url

# The upper bounds of the histogram of fetch durations, in seconds; the last bucket has none.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


MAX_EXAMPLES = 5  # of missing pages
MAX_FIRST_ERRORS = 5  # error classes of which the first error is remembered


def _empty() -> list[int]:
    return [0] * (len(BUCKETS) + 1)


@dataclass(slots=True)
class MetricCounters:
    """Counters for metrics of one worker, or the sum of several; keys have few distinct values."""

    tasks: dict[str, int] = field(default_factory=Counter)  # by "OUTCOME STEP"
    statuses: dict[str, int] = field(default_factory=Counter)  # by class: 2xx
    proxies: dict[str, int] = field(default_factory=Counter)  # by "OUTCOME PROXY"
    fetches: list[int] = field(default_factory=_empty)  # by duration
    fetch_seconds: float = 0.0

    def count_task(self, outcome: str, step: str) -> None:
        """Count a settled task."""
        key = f"{outcome} {step}"
        self.tasks[key] = self.tasks.get(key, 0) + 1

    def count_proxy(self, outcome: str, proxy: str) -> None:
        """Count a request through a proxy: a page, or what went wrong."""
        key = f"{outcome} {proxy}"
        self.proxies[key] = self.proxies.get(key, 0) + 1

    def count_fetch(self, seconds: float, status: int | None) -> None:
        """Count a fetch; without a status, it failed before a response."""
        self.fetches[bisect_left(BUCKETS, seconds)] += 1
        self.fetch_seconds += seconds
        name = f"{status // 100}xx" if status and 100 <= status < 600 else "none"
        self.statuses[name] = self.statuses.get(name, 0) + 1

    def __add__(self, other: "MetricCounters") -> "MetricCounters":
        buckets = [mine + others for mine, others in zip(self.fetches, other.fetches, strict=True)]
        return _sum(self, other, fetches=buckets)


class MissingPages(msgspec.Struct, frozen=True):
    """Pages that links led to and that do not exist (404, 410)."""

    count: int = 0
    examples: list[str] = msgspec.field(default_factory=list)  # their URLs

    def with_one(self, url: str) -> "MissingPages":
        """Return the pages with one more."""
        some = self.examples if len(self.examples) >= MAX_EXAMPLES else [*self.examples, shown_url(url)]
        return MissingPages(self.count + 1, some)

    def __add__(self, other: "MissingPages") -> "MissingPages":
        examples = [*self.examples, *other.examples][:MAX_EXAMPLES]
        return MissingPages(self.count + other.count, examples)


# Why a file was refused
TYPE, SIZE, MISSING, OTHER = "type", "size", "missing", "other"


@dataclass(slots=True)
class FileCounts:
    """Downloaded files: stored, unchanged since an earlier run, known to this one, and refused by reason."""

    stored: int = 0
    bytes: int = 0  # of stored files
    unchanged: int = 0
    known: int = 0  # stored before by this run, under the same URL or with the same content
    refused: dict[str, int] = field(default_factory=Counter)
    ended: int = 0  # tasks that are done; those of refused files may be dead letters

    def refuse(self, reason: str) -> None:
        """Count a file that will not be stored."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @property
    def total(self) -> int:
        """The number of downloads that have ended, whatever their result."""
        return self.stored + self.unchanged + self.known + sum(self.refused.values())

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return _sum(self, other)


class TaskCounts(msgspec.Struct):
    """What one attempt at a task has left out, and its file."""

    dropped: dict[str, int] = msgspec.field(default_factory=Counter)  # as those of a worker
    missing: MissingPages = msgspec.field(default_factory=MissingPages)
    files: FileCounts = msgspec.field(default_factory=FileCounts)

    def drop(self, links: Mapping[str, int]) -> None:
        """Count links that were not followed, by reason."""
        _add_counts(self.dropped, links)


@dataclass(slots=True)
class WorkerCounters:
    """Counters of one worker, or the sum of several."""

    pages: int = 0  # completed tasks
    items: int = 0
    rejected: int = 0
    retried: int = 0
    last_retry_at: float = 0.0  # when the last of the retries so far is due: a time of this machine
    buried: int = 0
    released: int = 0
    stale: int = 0  # outcomes that were rejected because they came too late
    bytes: int = 0
    from_cache: int = 0  # pages from the cache, without a request
    not_cached: int = 0  # pages that were looked up in the cache, and requested
    errors: dict[str, int] = field(default_factory=Counter)  # by class
    first_errors: dict[str, str] = field(default_factory=dict)  # of some classes, with traceback
    postponed: dict[str, int] = field(default_factory=Counter)  # tasks that could not be attempted, by reason
    waits_for: str = ""  # why a task was postponed last, until one is done
    dropped: dict[str, int] = field(default_factory=Counter)  # links that were not followed, by reason
    missing: MissingPages = field(default_factory=MissingPages)  # that links led to
    files: FileCounts = field(default_factory=FileCounts)
    measures: MetricCounters | None = None  # only if metrics are on
    first_page: str | None = None  # that a step has handled

    def count(self, outcome: Outcome, fate: Fate) -> None:
        """Count a settled outcome."""
        if fate is Fate.STALE:
            self.stale += 1
            return
        match outcome:
            case Done():
                self.waits_for = ""
                self.pages += 1
                self.items += len(outcome.items)
                self.rejected += len(outcome.rejects)
            case Retry():
                self.retried += 1
                self.last_retry_at = max(self.last_retry_at, time.time() + outcome.after.total_seconds())
            case Bury():
                self.buried += 1
            case Release():
                self.released += 1

    def count_left_out(self, outcome: Outcome, fate: Fate, counts: TaskCounts) -> None:
        """Count what a settled task has left out.

        Not before: a task whose outcome is late, or lost with its worker, is counted by the next one.
        """
        if fate is Fate.STALE:
            return
        if isinstance(outcome, Done | Bury):  # the task of a refused file may be dead
            self.files += counts.files
        if isinstance(outcome, Done):
            _add_counts(self.dropped, counts.dropped)
            self.missing += counts.missing

    def note_error(self, kind: str, outcome: Retry | Bury) -> None:
        """Count a failed attempt by the class of its error, and remember the first of each class."""
        self.errors[kind] = self.errors.get(kind, 0) + 1
        if kind not in self.first_errors and len(self.first_errors) < MAX_FIRST_ERRORS:
            self.first_errors[kind] = _describe(outcome)

    def __add__(self, other: "WorkerCounters") -> "WorkerCounters":
        return _sum(
            self,
            other,
            last_retry_at=max(self.last_retry_at, other.last_retry_at),
            first_errors=other.first_errors | self.first_errors,
            waits_for=other.waits_for or self.waits_for,
            first_page=self.first_page or other.first_page,
        )


Counters = TypeVar("Counters", MetricCounters, FileCounts, WorkerCounters)


def _sum(one: Counters, other: Counters, **given: Any) -> Counters:
    """Add counters field by field; some fields may be `given`."""
    names = (counter.name for counter in fields(one) if counter.name not in given)
    added = {name: _add(getattr(one, name), getattr(other, name)) for name in names}
    return replace(one, **added, **given)


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return Counter(one) + Counter(other)
    return one + other if one is not None and other is not None else one or other


def _add_counts(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def _describe(outcome: Retry | Bury) -> str:
    """Return an error in one line, and its traceback below."""
    url, error = outcome.lease.task.url, error_text(outcome.error).partition(": ")[2]
    first = shown_url(url) if url and shown_url(url) not in error else ""
    if outcome.traceback:
        return f"{first or 'a task'}\n{outcome.traceback}"
    return f"{first}: {error}" if first else error


# By the name of the error that postponed a task; metrics and JSON have the names.
POSTPONED = {
    "NotNow": "for another reason",
    "ProxyTrouble": "after a proxy failed",
    "NoProxyLeft": "without a usable proxy",
    "TokensResting": "waiting for an API token",
    "NoTokenLeft": "without a valid API token",
    "NoFilesLeft": "at the limit of open files",
    "NoTabFree": "waiting for a browser tab",
    "BrowserDown": "without a working browser",
    "BrowserLost": "after a browser crash",
    "NeedsBrowser": "waiting for a browser",
    "NoSession": "without a session",
    "TorDown": "without Tor",
}


def postponed_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many tasks were postponed by reasons in words."""
    return {POSTPONED.get(name, name): count for name, count in counts.items()}


def format_counts(counts: dict[str, int]) -> str:
    """Return the largest counts as text: 12 HttpError, 3 Timeout."""
    return ", ".join(f"{count:,} {name}" for name, count in top_counts(counts))


def top_counts(counts: dict[str, int], limit: int = 5) -> list[tuple[str, int]]:
    """Return the largest counts, in descending order."""
    return Counter(counts).most_common(limit)
