"""Metrics in Prometheus' words: what the workers of a launcher do, and what is in a queue.

A label is one of few: an outcome, a step, a class of errors, a scraper. Never a URL, a host or a run.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from shoal.core.errors import InvalidInput
from shoal.core.model import Counts, Run, WorkerStatus
from shoal.fleet.progress import Snapshot
from shoal.fleet.staleness import ENDINGS, state_of
from shoal.queue.contract import Queue
from shoal.worker.condition import HOUR, memory_of
from shoal.worker.measures import BUCKETS, Measures
from shoal.worker.tally import Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MOST_CLASSES = 50  # of errors; users may make up any number of them
MOST_RUNS = 100  # that are looked at, the newest first
LOOK_EVERY = 1.0  # seconds; who asks more often is told the same again
OTHER = "other"
STATES = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped")


def need_library() -> None:
    """Raise what to type where the library for metrics is missing."""
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput("Metrics need their library. Run: pip install 'shoal[metrics]'") from error


class Staff(Protocol):
    """The workers of one launcher, in one crew or in several."""

    @property
    def tally(self) -> Tally: ...
    @property
    def in_hand(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def pids(self) -> list[int]: ...


class CrewMetrics:
    """What the workers of one launcher do, and how the runs are that they work on."""

    def __init__(self, crew: Staff) -> None:
        self._crew = crew
        self._stats: dict[str, Counts] = {}  # of the newest run of each scraper

    def saw(self, snapshot: Snapshot) -> None:
        """Take in how a run is now."""
        self._stats[snapshot.run.scraper] = without_waiting(snapshot.run, snapshot.stats)

    async def text(self) -> bytes:
        """Return everything as Prometheus reads it."""
        return exposition(self.collect())

    def collect(self) -> "Iterator[Metric]":
        """Yield everything that is known now."""
        yield from tally_families(self._crew.tally)
        yield from crew_families(self._crew)
        if self._stats:
            yield queue_family(self._stats)


@dataclass(slots=True)
class QueueMetrics:
    """What is in a queue, whoever works on it: for a machine that watches the fleet."""

    queue: Queue
    _text: bytes = field(default=b"", init=False)
    _looked_at: float = field(default=0.0, init=False)

    async def text(self) -> bytes:
        """Return everything as Prometheus reads it, as of the last second."""
        if not self._text or time.monotonic() - self._looked_at >= LOOK_EVERY:
            self._text = exposition(await self.collect())
            self._looked_at = time.monotonic()
        return self._text

    async def collect(self) -> "Iterator[Metric]":
        """Look at the queue, and return what is there."""
        counts: dict[str, Counter[str]] = {}
        for run in (await self.queue.runs())[:MOST_RUNS]:
            stats = without_waiting(run, await self.queue.stats(run.id))
            counts.setdefault(run.scraper, Counter()).update(_by_state(stats))
        workers = await self.queue.workers()
        return iter([_queue_family(counts), *worker_families(workers)])


def exposition(families: "Iterator[Metric]") -> bytes:
    """Return families of metrics in the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Once(Collector):
        def collect(self) -> "Iterator[Metric]":
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry)


def tally_families(tally: Tally) -> "Iterator[Metric]":
    """Yield what workers have done."""
    from prometheus_client.core import CounterMetricFamily

    measures = tally.measures or Measures()
    yield _counter("shoal_tasks", "Tasks settled, by outcome and step.", ("outcome", "step"), measures.tasks)
    yield _counter("shoal_responses", "Answers of hosts, by class of status.", ("status",), measures.statuses)
    yield _counter("shoal_errors", "Failed tries, by class of error.", ("class",), few(tally.errors))
    yield _counter("shoal_put_off", "Tasks put off, by reason.", ("reason",), few(tally.put_off))
    yield CounterMetricFamily("shoal_items", "Items that were stored.", value=tally.items)
    yield CounterMetricFamily("shoal_rejected_items", "Items that were refused.", value=tally.rejected)
    yield CounterMetricFamily("shoal_pages_bytes", "Bytes of pages, decompressed.", value=tally.bytes)
    yield CounterMetricFamily("shoal_pages_from_cache", "Pages that nobody was asked for.", value=tally.kept)
    yield _fetch_seconds(measures)


def crew_families(crew: Staff) -> "Iterator[Metric]":
    """Yield how the workers of this machine are."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    pids = crew.pids
    workers = GaugeMetricFamily("shoal_workers", "Workers, by state.", labels=("state",))
    workers.add_metric(("running",), len(pids))
    yield workers
    yield CounterMetricFamily(
        "shoal_worker_restarts", "Workers started in the place of dead ones.", value=crew.restarts
    )
    memory = sum(memory_of(pid) or 0 for pid in pids)
    yield GaugeMetricFamily("shoal_worker_memory_bytes", "Memory of all workers here.", value=memory)
    yield GaugeMetricFamily("shoal_worker_leases", "Tasks in the hands of workers here.", value=crew.in_hand)


def queue_family(stats: Mapping[str, Counts]) -> "Metric":
    """Return how many tasks are in which state, by scraper."""
    return _queue_family({scraper: _by_state(counts) for scraper, counts in stats.items()})


def worker_families(workers: Sequence[WorkerStatus]) -> "Iterator[Metric]":
    """Yield how the workers of a whole fleet are, by their heartbeats; who ended is counted for an hour."""
    from prometheus_client.core import GaugeMetricFamily

    recent = [one for one in workers if one.last_beat.total_seconds() < HOUR or one.leased]
    states = Counter(state_of(one) for one in recent)
    family = GaugeMetricFamily("shoal_workers", "Workers, by state.", labels=("state",))
    for state in ("running", "frozen", "late", *ENDINGS, "launcher"):
        family.add_metric((state,), states[state])
    yield family
    living = [one for one in recent if state_of(one) == "running"]
    memory = sum(int(one.info.get("memory") or 0) for one in living)
    yield GaugeMetricFamily("shoal_worker_memory_bytes", "Memory of all workers.", value=memory)
    leased = sum(one.leased for one in recent)
    yield GaugeMetricFamily("shoal_worker_leases", "Tasks in the hands of workers.", value=leased)


def few(counts: Mapping[str, int], most: int = MOST_CLASSES) -> dict[str, int]:
    """Return the counts with only so many names; what is beyond them is counted as `other`."""
    if len(counts) <= most:
        return dict(counts)
    # The names that came first stay, so that a count never falls.
    names = list(counts)[:most]
    return {name: counts[name] for name in names} | {
        OTHER: sum(count for name, count in counts.items() if name not in names)
    }


def _counter(name: str, words: str, labels: tuple[str, ...], counts: Mapping[str, int]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, words, labels=labels)
    for key, count in counts.items():
        family.add_metric(key.split(" ", len(labels) - 1), count)
    return family


def _fetch_seconds(measures: Measures) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    bounds = [*map(str, BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        "shoal_fetch_seconds",
        "How long hosts took to answer.",
        buckets=list(zip(bounds, accumulate(measures.fetches), strict=True)),
        sum_value=measures.fetch_seconds,
    )


def without_waiting(run: Run, counts: Counts) -> Counts:
    """Return the counts of a run; what is left of one that has ended waits for nobody."""
    return replace(counts, pending=0, delayed=0) if run.state.has_ended else counts


def _by_state(counts: Counts) -> dict[str, int]:
    return {state: getattr(counts, state) for state in STATES}


def _queue_family(counts: Mapping[str, Mapping[str, int]]) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("shoal_queue_tasks", "Tasks, by state.", labels=("scraper", "state"))
    for scraper, by_state in counts.items():
        for state in STATES:
            family.add_metric((scraper, state), by_state.get(state, 0))
    return family
