"""How much of a run can be done now, and how many workers that can keep busy."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, inf

from shoal.core.model import ZERO, HostStatus, Run, RunSettings, RunState, Stats
from shoal.core.pacing import gap
from shoal.queue.contract import Queue

PACE = 10.0  # tasks a worker does in a second when no host holds it up, if nobody says otherwise
MOST_HOSTS = 10_000  # that are looked at; so many are no bottleneck


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a run has to do at one moment."""

    ready: int = 0  # tasks that may be claimed: their host is not paused, nor is the run
    leased: int = 0
    later: int = 0  # tasks that wait for a time, for a host's pause to end, or for the run to go on
    hosts: int = 0  # that have work
    usable: float = inf  # workers that the hosts' politeness can keep busy
    rate: float = inf  # starts in a second that the hosts allow
    slowest: timedelta = ZERO  # what the host with the longest queue takes at the least

    @property
    def under_way(self) -> int:
        """Tasks that workers have or may have at once."""
        return self.ready + self.leased

    @property
    def remaining(self) -> int:
        """Tasks that are still to be worked on."""
        return self.under_way + self.later

    @property
    def most_useful(self) -> int | None:
        """The largest number of workers that is no waste; None where the hosts set no limit."""
        return None if self.usable == inf else max(1, ceil(self.usable - 1e-9)) if self.under_way else 0


def pace_of(pause: tuple[timedelta, timedelta] | None, pace: float = PACE) -> float:
    """Return how many tasks a worker does in a second that pauses between any two of them."""
    if pause is None:
        return pace
    return 1 / (mean(pause).total_seconds() + 1 / pace)


def mean(pause: tuple[timedelta, timedelta]) -> timedelta:
    """Return how long a pause is on average: it is drawn evenly from the span."""
    return sum(pause, ZERO) / 2


async def load_of(queue: Queue, run: Run, *, pace: float = PACE) -> Load:
    """Look at a run as it is now; delays and leases that have ended are ended first, for nobody else may."""
    await queue.reclaim()
    stats = await queue.stats(run.id)
    hosts = [host async for host in _first(queue.hosts(run.id), MOST_HOSTS + 1)]
    return load(run, stats, hosts, pace=pace)


def load(run: Run, stats: Stats, hosts: Sequence[HostStatus], *, pace: float = PACE) -> Load:
    """Return the load of a run by its counts and its hosts; the tasks that no host has are always ready."""
    busy = [host for host in hosts if host.counts.remaining]
    held = sum(host.counts.pending for host in busy if host.paused_for)
    ready = max(0, stats.pending - held) if run.state is RunState.RUNNING else 0
    free = [host for host in busy if not host.paused_for and host.counts.pending + host.counts.leased]
    limits = run.settings
    is_bound = len(hosts) <= MOST_HOSTS and not _has_hostless(stats, hosts)
    return Load(
        ready=ready,
        leased=stats.leased,
        later=stats.remaining - ready - stats.leased,
        hosts=len(busy),
        usable=sum(_usable(host, limits, pace) for host in free) if is_bound else inf,
        rate=sum(_rate(host, limits) for host in free) if is_bound else inf,
        slowest=max((_length(host, limits) for host in busy), default=ZERO),
    )


def _has_hostless(stats: Stats, hosts: Iterable[HostStatus]) -> bool:
    """Tell whether tasks that no host has can be done now."""
    # The hosts are read after the whole, and tasks end meanwhile. But none ever vanishes: where the hosts
    # have all that ever entered, what is missing now was not without a host.
    counts = [host.counts for host in hosts]
    now = stats.pending + stats.leased - sum(each.pending + each.leased for each in counts)
    return now > 0 and stats.tasks > sum(each.tasks for each in counts)


def _usable(host: HostStatus, limits: RunSettings, pace: float) -> float:
    """Return how many workers one host can keep busy: by its rate, and by the leases it may have at once."""
    tasks = host.counts.pending + host.counts.leased
    return min(_rate(host, limits) / pace, limits.per_host, tasks)


def _rate(host: HostStatus, limits: RunSettings) -> float:
    between = gap(limits.host_delay, None, host.delay).total_seconds()
    return 1 / between if between else inf


def _length(host: HostStatus, limits: RunSettings) -> timedelta:
    waiting = host.counts.pending + host.counts.delayed
    return max(gap(limits.host_delay, None, host.delay) * waiting, host.paused_for or ZERO)


async def _first(source: AsyncIterator[HostStatus], most: int) -> AsyncIterator[HostStatus]:
    count = 0
    async for host in source:
        yield host
        count += 1
        if count >= most:
            return
