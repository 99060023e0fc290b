"""Decides how many workers a run should have, from its load; without a clock of its own.

Scaling up is immediate. Scaling down waits until fewer workers have been enough for a whole cooldown, so that
a fluctuating load does not stop and restart workers.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import ceil, inf

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND, ZERO, HostStatus, Run, RunSettings, RunState, Stats
from shoal.core.pacing import gap
from shoal.core.tasks import first
from shoal.core.values import counted
from shoal.queue.contract import Queue

PACE = 10.0  # default tasks per second of a worker that no host slows down
MAX_HOSTS = 10_000  # that are read; with more, hosts are no bottleneck


class RunLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a run at one moment."""

    ready: int = 0  # tasks that may be claimed: neither their host nor the run is paused
    leased: int = 0
    later: int = 0  # tasks that are delayed, whose host is paused, or whose run is paused
    hosts: int = 0  # with work
    usable: float = inf  # workers that the hosts' rate limits can keep busy
    rate: float = inf  # requests per second that the hosts allow
    slowest: timedelta = ZERO  # minimum time for the host with the longest queue

    @property
    def under_way(self) -> int:
        """Tasks that are leased or can be leased now."""
        return self.ready + self.leased

    @property
    def remaining(self) -> int:
        """Tasks that are not ended."""
        return self.under_way + self.later

    @property
    def most_useful(self) -> int | None:
        """The largest useful number of workers; None if the hosts set no limit."""
        return None if self.usable == inf else max(1, ceil(self.usable - 1e-9)) if self.under_way else 0


def pace_of(pause: tuple[timedelta, timedelta] | None, pace: float = PACE) -> float:
    """Return the tasks per second of a worker that pauses between tasks."""
    if pause is None:
        return pace
    return 1 / (mean(pause).total_seconds() + 1 / pace)


def mean(pause: tuple[timedelta, timedelta]) -> timedelta:
    """Return the average pause: it is drawn uniformly from the range."""
    return sum(pause, ZERO) / 2


async def load_of(queue: Queue, run: Run, *, pace: float = PACE) -> RunLoad:
    """Return the current load of a run; `reclaim` is called first, as no worker may be there to do so."""
    await queue.reclaim()
    stats = await queue.stats(run.id)
    hosts = [host async for host in first(queue.hosts(run.id), MAX_HOSTS + 1)]
    return load(run, stats, hosts, pace=pace)


def load(run: Run, stats: Stats, hosts: Sequence[HostStatus], *, pace: float = PACE) -> RunLoad:
    """Return the load of a run from its counts and hosts; tasks without a host are always ready."""
    busy = [host for host in hosts if host.counts.remaining]
    held = sum(host.counts.pending for host in busy if host.paused_for)
    ready = max(0, stats.pending - held) if run.state is RunState.RUNNING else 0
    free = [host for host in busy if not host.paused_for and host.counts.pending + host.counts.leased]
    limits = run.settings
    is_bound = len(hosts) <= MAX_HOSTS and not _has_hostless(stats, hosts)
    return RunLoad(
        ready=ready,
        leased=stats.leased,
        later=stats.remaining - ready - stats.leased,
        hosts=len(busy),
        usable=sum(_usable(host, limits, pace) for host in free) if is_bound else inf,
        rate=sum(_rate(host, limits) for host in free) if is_bound else inf,
        slowest=max((_length(host, limits) for host in busy), default=ZERO),
    )


def _has_hostless(stats: Stats, hosts: Iterable[HostStatus]) -> bool:
    """Return whether tasks without a host are ready or leased."""
    # The hosts are read after the totals, and tasks end meanwhile. But no task ever vanishes: if the hosts
    # have all tasks that were ever enqueued, what is missing now was not without a host.
    counts = [host.counts for host in hosts]
    now = stats.pending + stats.leased - sum(each.pending + each.leased for each in counts)
    return now > 0 and stats.tasks > sum(each.tasks for each in counts)


def _usable(host: HostStatus, limits: RunSettings, pace: float) -> float:
    """Return how many workers one host can keep busy: by its rate and its limit of leases."""
    tasks = host.counts.pending + host.counts.leased
    return min(_rate(host, limits) / pace, limits.per_host, tasks)


def _rate(host: HostStatus, limits: RunSettings) -> float:
    between = gap(limits.host_delay, None, host.delay).total_seconds()
    return 1 / between if between else inf


def _length(host: HostStatus, limits: RunSettings) -> timedelta:
    waiting = host.counts.pending + host.counts.delayed
    return max(gap(limits.host_delay, None, host.delay) * waiting, host.paused_for or ZERO)


TASKS_PER_WORKER = 500
COOLDOWN = 30 * SECOND
# The targets of the last cooldown that still count, with their times: each is less than the one before.
ScaleHistory = tuple[tuple[timedelta, int], ...]


class ScaleBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for scaling a run."""

    most: int
    least: int = 0
    tasks_per_worker: int = TASKS_PER_WORKER
    cooldown: timedelta = COOLDOWN

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InvalidSetting("--max", f"must be at least 1, got {self.most}")
        if not 0 <= self.least <= self.most:
            raise InvalidSetting("--min", f"must be from 0 to --max, which is {self.most}, got {self.least}")
        if self.tasks_per_worker < 1:
            raise InvalidSetting("--tasks-per-worker", f"must be at least 1, got {self.tasks_per_worker}")
        if self.cooldown < ZERO:
            raise InvalidSetting("--cooldown", "cannot be negative")


class ScaleTarget(msgspec.Struct, frozen=True):
    """How many workers a load needs, and why not more."""

    workers: int
    why: str
    wasted: int = 0  # workers that the number of tasks would need, but its hosts cannot use


def decide_workers(load: RunLoad, bounds: ScaleBounds) -> ScaleTarget:
    """Return the number of workers that a load needs, regardless of the history."""
    by_tasks = min(ceil(load.under_way / bounds.tasks_per_worker), bounds.most)
    useful = load.most_useful
    by_hosts = by_tasks if useful is None else min(by_tasks, useful)
    workers = max(by_hosts, bounds.least)
    return ScaleTarget(workers, _why(load, bounds, by_tasks, by_hosts), by_tasks - by_hosts)


def apply_cooldown(
    now: timedelta, wanted: int, history: ScaleHistory, cooldown: timedelta
) -> tuple[int, ScaleHistory]:
    """Return the highest target within the cooldown, and the updated history."""
    kept = [(at, count) for at, count in history if count > wanted and now - at < cooldown]
    targets = (*kept, (now, wanted))
    return targets[0][1], targets


def _why(load: RunLoad, bounds: ScaleBounds, by_tasks: int, by_hosts: int) -> str:
    tasks = f"{load.ready:,} ready and {load.leased:,} leased"
    if by_hosts < by_tasks:
        hosts = counted(load.hosts, "host")
        return f"{tasks}, but {hosts} at {load.rate:,.3g} pages/s can't keep more than {by_hosts} busy"
    if by_tasks == bounds.most and load.under_way > bounds.most * bounds.tasks_per_worker:
        return f"{tasks}, and --max is {bounds.most}"
    if not load.under_way and load.later:
        return f"no task is ready; delayed: {load.later:,}"
    return tasks
