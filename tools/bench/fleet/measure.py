"""Measures a fleet of some size on one server: at work, and with nothing to do."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from shoal.queue.open import open_queue
from tools.bench.children import run_processes
from tools.bench.fleet.process import PROBE, SIMULATE
from tools.bench.fleet.servers import Counters, FleetServer
from tools.bench.fleet.workload import BUSY, HOST_DELAY, IDLE, RATE, SCRAPER, SETTINGS, idle_seeds, seeds
from tools.bench.report import Bar, Figure, Figures, at_most, percentile
from tools.bench.talk import say

CLAIM_P99 = at_most(50)  # ms
IDLE_QUERIES = at_most(0.2)  # per second and worker
BARRED = 2_000  # workers on one PostgreSQL for which the bars hold
SETTLED = 10.0  # seconds after the last start in which the fleet finds its pace
MAX_PROBED = 200  # workers whose claims are measured, or a tenth of the fleet if that is less
TAIL = 1.0  # seconds before the end that are not counted: the processes do not end at the same moment


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScale:
    """How large and how long."""

    name: str
    workers: Sequence[int]
    warm_up: float = 20.0  # seconds in which the workers start
    seconds: float = 60.0  # measured at work
    idle_seconds: float = 60.0
    processes: int = 2  # beside the probe
    rate: float = RATE


QUICK = FleetScale(name="quick", workers=(200,), warm_up=5, seconds=8, idle_seconds=25)
DEFAULT = FleetScale(name="default", workers=(200, 1_000, 2_000))
TINY = FleetScale(name="tiny", workers=(20,), warm_up=1, seconds=4, idle_seconds=3, processes=1)


class TooFewSamples(Exception):
    """The machine was too busy to read the server's counters twice."""

    def __init__(self, count: int) -> None:
        super().__init__(f"The server's counters were read {count} times, and not in the measured time")


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of some processes."""

    seconds: Sequence[float]  # of each, the shortest first
    full: float  # share that gave something
    lag: float  # seconds by which the median timer of the processes was late: claims seem as much slower

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self.seconds)

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which so many of them had their reply."""
        return 1e3 * percentile(self.seconds or [0.0], share)


@dataclass(frozen=True, slots=True)
class Phase:
    """What the servers and the workers did between two moments."""

    seconds: float
    before: Counters
    after: Counters
    tasks: int
    probed: Claims
    simulated: Claims
    failures: int  # workers that ended because of the queue, and were started again

    @property
    def claims(self) -> int:
        """How many claims there were."""
        return self.probed.count + self.simulated.count

    @property
    def full(self) -> float:
        """The share of the claims that gave something."""
        full = sum(one.full * one.count for one in (self.probed, self.simulated))
        return full / max(self.claims, 1)

    @property
    def queries(self) -> float:
        """Queries per second at the server."""
        return (self.after.queries - self.before.queries) / self.seconds

    @property
    def details(self) -> dict[str, int]:
        """What else the server counted, as far as it changed."""
        before, after = self.before.details, self.after.details
        return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)}

    @property
    def cpu(self) -> float:
        """Processor seconds of the server."""
        return self.after.cpu - self.before.cpu


async def measure(server: FleetServer, workers: int, scale: FleetScale) -> Figures:
    """Let a fleet work, then let one of the same size wait."""
    await _fill(server.address, workers, scale.rate)
    name = f"{server.name}, {workers:,} workers"
    is_barred = server.name == "postgres" and workers >= BARRED
    busy = await _run_phase(server, BUSY, workers, scale, scale.seconds, is_rested=False)
    for figure in _busy_figures(name, busy, CLAIM_P99 if is_barred else None):
        yield figure
    idle = await _run_phase(server, IDLE, workers, scale, scale.idle_seconds, is_rested=True)
    for figure in _idle_figures(name, idle, workers, IDLE_QUERIES if is_barred else None):
        yield figure


def _busy_figures(name: str, busy: Phase, bar: Bar | None) -> Iterator[Figure]:
    tasks = max(busy.tasks, 1)
    probed, simulated = busy.probed, busy.simulated
    detail = {"claims": probed.count, "max_ms": probed.percentile(1.0), "seconds": busy.seconds}
    yield Figure(f"{name}: tasks", busy.tasks / busy.seconds, "/s", None, busy.details)
    yield Figure(f"{name}: queries", busy.queries, "/s")
    yield Figure(f"{name}: queries per task", busy.queries * busy.seconds / tasks, "")
    yield Figure(f"{name}: claims", busy.claims / busy.seconds, "/s")
    yield Figure(f"{name}: claims that gave tasks", 100 * busy.full, "%")
    yield Figure(f"{name}: claim, p50", probed.percentile(0.5), "ms", None, detail)
    yield Figure(f"{name}: claim, p99", probed.percentile(0.99), "ms", bar)
    yield Figure(f"{name}: lag of the probe", 1e3 * probed.lag, "ms")
    yield Figure(f"{name}: claim in the simulation, p99", simulated.percentile(0.99), "ms")
    yield Figure(f"{name}: lag of the simulation", 1e3 * simulated.lag, "ms")
    if calls := busy.details.get("shoal.claim calls"):
        yield Figure(f"{name}: claim at the server, mean", busy.details["shoal.claim us"] / calls / 1e3, "ms")
    yield Figure(f"{name}: server's CPU per task", busy.cpu / tasks * 1e6, "us")
    yield Figure(f"{name}: server's CPU", busy.cpu / busy.seconds, "cores")
    if busy.after.wal:
        yield Figure(f"{name}: WAL per task", (busy.after.wal - busy.before.wal) / tasks, "bytes")
    if busy.failures:
        yield Figure(f"{name}: workers that the queue failed", busy.failures, "")
    yield Figure(f"{name}: connections", busy.after.connections, "")


def _idle_figures(name: str, idle: Phase, workers: int, bar: Bar | None) -> Iterator[Figure]:
    yield Figure(f"{name}: idle worker, queries", idle.queries / workers, "/s", bar, idle.details)
    polls = idle.claims / idle.seconds / workers
    yield Figure(f"{name}: idle worker, claims among them", polls, "/s")
    yield Figure(f"{name}: idle worker, server's CPU", idle.cpu / idle.seconds / workers * 1e6, "us/s")


async def _fill(address: str, workers: int, rate: float) -> None:
    hosts = max(1, round(workers * rate * HOST_DELAY.total_seconds()))
    async with open_queue(address) as queue:
        for run_id, tasks in ((BUSY, seeds(hosts)), (IDLE, idle_seeds())):
            await queue.start_run(SCRAPER, settings=SETTINGS, run_id=f"{run_id}-{workers}")
            await queue.enqueue(f"{run_id}-{workers}", tasks)


async def _run_phase(
    server: FleetServer, run_id: str, workers: int, scale: FleetScale, seconds: float, *, is_rested: bool
) -> Phase:
    say(f"{server.name}: {workers:,} workers, {'with nothing to do' if is_rested else 'at work'}")
    async with _sampled(server) as samples:
        reports = await run_processes(
            1 + scale.processes,
            SIMULATE,
            address=server.address,
            run_id=f"{run_id}-{workers}",
            workers=_split(workers, scale.processes),
            per_machine=server.per_machine,
            stagger=scale.warm_up,
            seconds=seconds,
            is_rested=is_rested,
        )
    first = max(report["began"] for report in reports) + scale.warm_up + min(SETTLED, seconds / 4)
    last = min(report["settled"][-1][0] for report in reports) - TAIL
    return _phase(reports, samples, first, last)


def _split(workers: int, processes: int) -> list[int]:
    """Return how many workers the probe has, and each of the other processes."""
    probed = max(1, min(MAX_PROBED, workers // 10))
    rest, more = divmod(workers - probed, processes)
    return [probed, *(rest + (number < more) for number in range(processes))]


def _phase(
    reports: Sequence[dict[str, Any]], samples: Sequence[tuple[float, Counters]], first: float, last: float
) -> Phase:
    """Return what happened between the samples that are next to these moments."""
    began, before = min(samples, key=lambda sample: abs(sample[0] - first))
    ended, after = min(samples, key=lambda sample: abs(sample[0] - last))
    if began == ended:
        raise TooFewSamples(len(samples))
    tasks = sum(_settled(report, ended) - _settled(report, began) for report in reports)
    failures = sum(report["failures"] for report in reports)
    probed, simulated = (
        _claims(some, began, ended) for some in (reports[PROBE : PROBE + 1], reports[PROBE + 1 :])
    )
    return Phase(ended - began, before, after, tasks, probed, simulated, failures)


def _claims(reports: Sequence[dict[str, Any]], began: float, ended: float) -> Claims:
    """Return the claims of these processes between two moments."""
    claims = [
        (seconds, leases)
        for report in reports
        for at, seconds, leases in report["claims"]
        if began <= at <= ended
    ]
    full = sum(leases > 0 for _, leases in claims) / max(len(claims), 1)
    lags = [lag for report in reports for at, lag in report["lags"] if began <= at <= ended]
    return Claims(sorted(seconds for seconds, _ in claims), full, percentile(lags or [0.0], 0.5))


def _settled(report: dict[str, Any], moment: float) -> int:
    return int(min(report["settled"], key=lambda sample: abs(sample[0] - moment))[1])


@asynccontextmanager
async def _sampled(server: FleetServer) -> AsyncIterator[list[tuple[float, Counters]]]:
    """Lend a list of times and the server's counters."""
    samples = [(time.monotonic(), server.count())]

    async def sample() -> None:
        while True:
            await asyncio.sleep(server.sample_interval)
            counted = await asyncio.to_thread(server.count)
            samples.append((time.monotonic(), counted))

    sampling = asyncio.create_task(sample())
    try:
        yield samples
    finally:
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling
