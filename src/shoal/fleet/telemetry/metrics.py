"""Prometheus metrics: what the workers of a launcher do, and what is in a queue.

Labels have few values: an outcome, a step, an error class, a scraper, a proxy. Never a URL, a host or a run.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Protocol

from shoal.core.errors import InvalidInput
from shoal.core.model import Counts, RunState, WorkerState, WorkerStatus
from shoal.fleet.status.at_work import ENDINGS, is_at_work, state_of
from shoal.fleet.status.find import is_standing
from shoal.fleet.status.progress import Snapshot, live_counts, snapshot_of
from shoal.queue.contract import Queue
from shoal.registry.extras import install_command
from shoal.worker.counters import BUCKETS, MetricCounters, WorkerCounters
from shoal.worker.process.heartbeat import HOUR, memory_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from shoal.fleet.schedule.plan import ScheduleRecord

    ScheduleReader = Callable[[], Awaitable[Sequence[ScheduleRecord]]]

MAX_ERROR_CLASSES = 50  # users may define any number of them
MAX_PROXIES = 200
MAX_RUNS = 100  # that are read, the newest first
CACHE_TTL_SECONDS = 1.0  # a scrape within it gets the same text again
OTHER = "other"
STATES = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped")


def need_library() -> None:
    """Raise InvalidInput if the metrics library is missing; it says what to install."""
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput(f"Metrics need their library. Run: {install_command('metrics')}") from error


class WorkerCountsSource(Protocol):
    """The workers of one launcher, in one worker pool or several."""

    @property
    def tally(self) -> WorkerCounters: ...
    @property
    def in_hand(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def pids(self) -> list[int]: ...
    @property
    def frozen_pids(self) -> list[int]: ...


class PoolMetrics:
    """Metrics of the workers of one launcher and of the runs they work on."""

    def __init__(self, pool: WorkerCountsSource) -> None:
        self._pool = pool
        self._stats: dict[str, Counts] = {}  # of the newest run of each scraper
        self._ended: dict[str, Snapshot] = {}  # the last run of each that has ended

    def update(self, snapshot: Snapshot) -> None:
        """Record the current counts of a run."""
        self._stats[snapshot.run.scraper] = live_counts(snapshot.run, snapshot.stats)
        if snapshot.outcome:
            self._ended[snapshot.run.scraper] = snapshot

    async def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return exposition(self.collect())

    def find_problem(self) -> str:
        """Return what is wrong with the workers, in a line; empty if all of them respond."""
        frozen = self._pool.frozen_pids
        return f"Workers that do not respond: process {', '.join(map(str, frozen))}." if frozen else ""

    def collect(self) -> "Iterator[Metric]":
        """Yield all metrics."""
        yield from tally_families(self._pool.tally)
        yield from pool_families(self._pool)
        if self._stats:
            yield queue_family({scraper: [counts] for scraper, counts in self._stats.items()})
        yield from outcome_families(self._ended)


@dataclass(slots=True)
class QueueMetrics:
    """Metrics of a whole queue, independent of the workers here: for a machine that monitors the fleet."""

    queue: Queue
    schedules: "ScheduleReader | None" = None
    _text: bytes = field(default=b"", init=False)
    _read_at: float = field(default=0.0, init=False)

    async def text(self) -> bytes:
        """Return all metrics in Prometheus' text format, as of the last second."""
        if not self._text or time.monotonic() - self._read_at >= CACHE_TTL_SECONDS:
            self._text = exposition(await self.collect())
            self._read_at = time.monotonic()
        return self._text

    async def collect(self) -> "Iterator[Metric]":
        """Read the queue, and return its metrics."""
        workers = await self.queue.workers()
        if not any(map(is_at_work, workers)):
            # Nobody else ends delays and lost leases, and an autoscaler waits for this number to rise.
            await self.queue.reclaim()
        counts: dict[str, list[Counts]] = {}
        ended: dict[str, Snapshot] = {}  # the newest run of each scraper that has ended
        demand, unfinished = 0, set[str]()
        for run in (await self.queue.runs())[:MAX_RUNS]:
            now = await self.queue.stats(run.id)
            stats = live_counts(run, now)
            if run.scraper not in ended and (one := await snapshot_of(self.queue, run, now)).outcome:
                ended[run.scraper] = one
            counts.setdefault(run.scraper, []).append(stats)
            demand += stats.leased + (stats.pending if run.state is RunState.RUNNING else 0)
            if stats.remaining or is_standing(run):
                unfinished.add(run.id)
        # Nobody waits for a worker that was lost in a run which others have finished.
        known = [one for one in workers if state_of(one) != WorkerState.LATE or one.run_id in unfinished]
        records = await self.schedules() if self.schedules else ()
        families = [queue_family(counts), demand_family(demand)]
        schedules = schedule_families(records) if records else ()
        return chain(families, schedules, worker_families(known), outcome_families(ended))


def exposition(families: "Iterator[Metric]") -> bytes:
    """Return metric families in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Once(Collector):
        def collect(self) -> "Iterator[Metric]":
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry)


def tally_families(tally: WorkerCounters) -> "Iterator[Metric]":
    """Yield what workers have done."""
    measures = tally.measures or MetricCounters()
    yield _counter("shoal_tasks", "Tasks settled, by outcome and step.", ("outcome", "step"), measures.tasks)
    yield _counter("shoal_responses", "Responses, by class of status.", ("status",), measures.statuses)
    words = "Requests through proxies, by outcome: a page, or the fault."
    yield _counter("shoal_proxy_requests", words, ("outcome", "proxy"), few_proxies(measures.proxies))
    yield _counter("shoal_errors", "Failed attempts, by error class.", ("class",), few(tally.errors))
    yield _counter("shoal_put_off", "Tasks postponed, by reason.", ("reason",), few(tally.postponed))
    yield _counter("shoal_items", "Items stored.", (), {"": tally.items})
    yield _counter("shoal_rejected_items", "Items rejected.", (), {"": tally.rejected})
    yield _counter("shoal_pages_bytes", "Bytes of page bodies, decompressed.", (), {"": tally.bytes})
    yield _counter("shoal_pages_from_cache", "Pages read from the cache.", (), {"": tally.from_cache})
    yield _fetch_seconds(measures)


def pool_families(pool: WorkerCountsSource) -> "Iterator[Metric]":
    """Yield the state of this launcher's workers."""
    pids = pool.pids
    memory = sum(memory_of(pid) or 0 for pid in pids)
    yield _gauge("shoal_workers", "Workers, by state.", {("running",): len(pids)}, ("state",))
    yield _counter("shoal_worker_restarts", "Workers started to replace dead ones.", (), {"": pool.restarts})
    yield _gauge("shoal_worker_memory_bytes", "Memory of all workers of this launcher.", {(): memory})
    yield _gauge("shoal_worker_leases", "Tasks leased by the workers of this launcher.", {(): pool.in_hand})


def outcome_families(ended: Mapping[str, Snapshot]) -> "Iterator[Metric]":
    """Yield how the last run of each scraper has ended, and how many findings its items gave."""
    outcomes = {(scraper, str(one.outcome)): 1.0 for scraper, one in ended.items()}
    findings = {(scraper,): float(len(one.findings)) for scraper, one in ended.items()}
    words = "The outcome of the last run of a scraper that has ended, which is 1."
    yield _gauge("shoal_run_outcome", words, outcomes, ("scraper", "outcome"))
    yield _gauge("shoal_run_findings", "What was not as expected in its items.", findings, ("scraper",))


def schedule_families(records: "Sequence[ScheduleRecord]") -> "Iterator[Metric]":
    """Yield when schedules occur, and what became of the occurrences that are remembered."""
    upcoming = {(one.name,): one.next_at.timestamp() for one in records if one.next_at}
    last = {
        (one.name,): occurrence.at.timestamp()
        for one in records
        for occurrence in one.occurrences
        if occurrence.fired_at
    }
    states = Counter(
        (one.name, occurrence.outcome or occurrence.state)
        for one in records
        for occurrence in one.occurrences
    )
    name, words = ("schedule",), "Occurrences that are remembered, by outcome, or state without one."
    yield _gauge("shoal_schedule_next_timestamp_seconds", "When a schedule occurs next.", upcoming, name)
    yield _gauge("shoal_schedule_last_timestamp_seconds", "The newest one that has begun.", last, name)
    yield _gauge("shoal_schedule_occurrences", words, states, ("schedule", "state"))


def queue_family(stats: Mapping[str, Sequence[Counts]]) -> "Metric":
    """Return the number of tasks in each state, by scraper; the counts of its runs are added."""
    values = {
        (scraper, state): float(sum(getattr(counts, state) for counts in runs))
        for scraper, runs in stats.items()
        for state in STATES
    }
    return _gauge("shoal_queue_tasks", "Tasks, by state.", values, ("scraper", "state"))


def demand_family(demand: int) -> "Metric":
    """Return how many tasks are ready or leased; without labels, since KEDA's trigger reads one sample."""
    return _gauge("shoal_queue_demand", "Tasks that are ready or leased.", {(): demand})


def worker_families(workers: Sequence[WorkerStatus]) -> "Iterator[Metric]":
    """Yield the state of a whole fleet's workers, by their heartbeats; ended workers count for an hour."""
    recent = [one for one in workers if one.last_beat.total_seconds() < HOUR or one.leased]
    found = Counter(state_of(one) for one in recent)
    states = (WorkerState.RUNNING, WorkerState.FROZEN, WorkerState.LATE, *ENDINGS)
    living = [one for one in recent if state_of(one) == WorkerState.RUNNING]
    memory = sum(int(one.info.get("memory") or 0) for one in living)
    leased = sum(one.leased for one in recent)
    yield _gauge("shoal_workers", "Workers, by state.", {(one,): found[one] for one in states}, ("state",))
    yield _gauge("shoal_worker_memory_bytes", "Memory of all workers.", {(): memory})
    yield _gauge("shoal_worker_leases", "Tasks leased by workers.", {(): leased})


def few(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts with few names; the rest is summed up as `other`."""
    if len(counts) <= MAX_ERROR_CLASSES:
        return dict(counts)
    # The first names stay, so that a counter never decreases.
    names = list(counts)[:MAX_ERROR_CLASSES]
    return {name: counts[name] for name in names} | {
        OTHER: sum(count for name, count in counts.items() if name not in names)
    }


def few_proxies(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts by "OUTCOME PROXY" of few proxies; the rest is summed up as `other`."""
    known = set(list(dict.fromkeys(key.partition(" ")[2] for key in counts))[:MAX_PROXIES])
    found = Counter[str]()
    for key, count in counts.items():
        outcome, _, proxy = key.partition(" ")
        found[f"{outcome} {proxy if proxy in known else OTHER}"] += count
    return found


def _counter(name: str, words: str, labels: tuple[str, ...], counts: Mapping[str, int]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, words, labels=labels)
    for key, count in counts.items():
        family.add_metric(key.split(" ", len(labels) - 1), count)
    return family


def _gauge(name: str, words: str, values: Mapping[Any, float], labels: tuple[str, ...] = ()) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _fetch_seconds(measures: MetricCounters) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    bounds = [*map(str, BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        "shoal_fetch_seconds",
        "Response times of hosts, in seconds.",
        buckets=list(zip(bounds, accumulate(measures.fetches), strict=True)),
        sum_value=measures.fetch_seconds,
    )
