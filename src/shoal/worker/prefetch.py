"""The prefetch buffer: leases that a worker has claimed and not started yet, and when each may start.

The store plans the starts of a host, for all workers together. The buffer keeps to that plan, and gives up
a start that has passed: the one that follows it may be another worker's.
"""

from collections.abc import Iterable
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

from shoal.core.model import Lease
from shoal.core.tasks import TIMER_ERROR
from shoal.scrape.settings.scraper import MAX_SLACK, SLACK

# Every start of a polite run is delayed by this much, so that a late reply makes no start late; and the
# starts of one host, on any worker, by up to as much again: hosts that are claimed together and have the same
# gap would otherwise get their requests at the same moment for ever, all but the first of them late.
MAX_LAG = 0.05  # seconds
# The starts that a host gives in one claim, its burst, follow each other; what follows them may be another
# worker's. A request that is later than this after the last of them would come too close to that one. For
# gaps below a tenth of a second no machine is that punctual.
TOLERANCE, MIN_TOLERANCE = 0.04, 0.004  # of the gap; seconds
# Starts of a claim that are further apart are two bursts: a claim of several calls to the store may have
# another worker's start between its own.
MAX_STRIDE = 1.5  # times the gap
# After a late start, one on time would come too close: the lost time is made up little by little.
CATCH_UP, MIN_CATCH_UP = 0.01, 0.001  # of the gap; seconds
RECENT_SPANS = 20
# One pause of the process delays every start that falls into it. They count as one late span: a machine is
# always late when most of its spans are. With fewer, the starts that are on time keep the run going.
MAX_LATE_SPANS = 0.75  # of the recent ones
MAX_SPAN = 1.0  # seconds; for shorter gaps, the gap
MAX_HOSTS = 10_000

LeaseKey = tuple[str, int]  # a lease's task and token


class ScheduledLease(NamedTuple):
    """A lease, and when by the worker's clock its request may be sent, unless its page is cached."""

    lease: Lease
    due: float
    is_cached: bool = False
    may_be_late: bool = False  # because a hook of the user took its time
    needs_turn: bool = False  # at its host, because it waited until others had ended
    burst: list[float] | None = None  # all starts that its host granted in the same claim

    @property
    def burst_end(self) -> float:
        """The last start that this worker has claimed at the host together with this one."""
        return max(self.burst) if self.burst else self.due


class PrefetchBuffer:
    """Holds leases until they are due, and checks that they do not start too late."""

    def __init__(self, gap: timedelta, *, starts_early: bool = False) -> None:
        """Give leases out when they are due, or early: for steps that call `request_at` themselves."""
        self._starts_early = starts_early
        self.set_gap(gap)
        self._heap: list[tuple[float, int, ScheduledLease]] = []
        # Of every lease its number in the heap, where its other entries are void, and its start.
        self._held: dict[LeaseKey, tuple[int, ScheduledLease]] = {}
        self._counter = 0
        self._last_request: dict[str, float] = {}  # by host
        self._last_pop: dict[str, float] = {}  # by host: its request may be sent at any moment

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap = gap.total_seconds()
        self._lag = lag_of(gap)
        self._lead = self._lag if self._starts_early else 0.0
        self._tolerance = tolerance_of(gap)
        # The stores plan starts further apart than the gap, by the slack: this worker may use it up.
        slack = min(self._gap * SLACK / (1 + SLACK), MAX_SLACK.total_seconds())
        self._min_gap = self._gap - max(self._gap * CATCH_UP + slack, MIN_CATCH_UP)
        self._span = min(self._gap, MAX_SPAN)
        self._starts_in: dict[int, list[int]] = {}  # of each recent span: starts, and late starts

    def __len__(self) -> int:
        return len(self._held)

    def put(self, leases: Iterable[Lease], claimed_at: float) -> None:
        """Add leases that were claimed at this moment of the worker's clock."""
        bursts: dict[str | None, list[float]] = {}
        for lease in leases:
            host = host_of(lease)
            due = claimed_at + lease.start_in.total_seconds() + self._lag_of(host)
            # One list for all starts of the burst, so that each of them sees those that are added later.
            burst = bursts.setdefault(host, [])
            if burst and due - burst[-1] > MAX_STRIDE * self._gap:
                burst = bursts[host] = []
            burst.append(due)
            self._push(due - self._lead, ScheduledLease(lease, due, burst=burst))

    def start_now(self, lease: Lease) -> None:
        """Make a lease due now, because its page is cached; nothing if it was started already."""
        if held := self._held.get(key_of(lease)):
            start = held[1]
            if start.burst and start.due in start.burst:
                start.burst.remove(start.due)  # it is returned to the host, so another worker may get it
            self._push(0.0, ScheduledLease(lease, 0.0, is_cached=True))

    def pop(self, now: float) -> ScheduledLease | None:
        """Remove and return a lease that is due, or None."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, start = heappop(self._heap)
            host = None if start.is_cached or not self._gap else host_of(start.lease)
            # The last pop counts as a request: its task may still be on its way to the fetcher.
            earliest = self._earliest(host, self._last_request, self._last_pop)
            if earliest <= now + self._lead:
                del self._held[key_of(start.lease)]
                if host:
                    self._last_pop = self._record(self._last_pop, host, max(now, start.due))
                return start
            self._push(earliest - self._lead, start)
        return None

    def request_at(self, start: ScheduledLease) -> float:
        """Return when the request of a lease that has started early may be sent."""
        return max(start.due, self._earliest(host_of(start.lease), self._last_request)) if self._gap else 0.0

    def try_start(self, start: ScheduledLease, now: float, *, is_strict: bool = False) -> bool:
        """Return whether the request may still be sent at this moment; if so, it counts as sent.

        A strict one is never late, however late this machine always is.
        """
        host = host_of(start.lease)
        if not self._gap or host is None:
            return True
        # Only the end of the burst matters: between its starts there is no other worker's.
        is_late = now > start.burst_end + self._tolerance
        if not start.may_be_late:
            self._count(is_late, now)
        # On a machine that is always late nothing would ever start. Then the gap is kept within this worker.
        may_start = start.may_be_late or not is_late or (self.is_always_late and not is_strict)
        if not may_start or self._earliest(host, self._last_request) > now + TIMER_ERROR:
            # It was popped and is not sent: the next start of its host must not wait for it.
            self._last_pop.pop(host, None)
            return False
        self._last_request = self._record(self._last_request, host, now)
        return True

    @property
    def is_always_late(self) -> bool:
        """Whether this worker is late so often that it sends requests after their time."""
        late_spans = sum(2 * late > starts for starts, late in self._starts_in.values())
        return late_spans > MAX_LATE_SPANS * RECENT_SPANS

    def next_due(self) -> float | None:
        """Return when the next lease is due, by the worker's clock."""
        while self._heap and not self._is_current(*self._heap[0][1:]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def clear(self) -> list[Lease]:
        """Remove and return every lease."""
        leases = [start.lease for _, start in self._held.values()]
        self._heap.clear()
        self._held.clear()
        return leases

    def _push(self, due: float, start: ScheduledLease) -> None:
        # The counter orders equal times, because leases cannot be compared. A lease that is pushed again
        # leaves its old entry in the heap, where removing it would take a search.
        self._counter += 1
        self._held[key_of(start.lease)] = self._counter, start
        heappush(self._heap, (due, self._counter, start))

    def _is_current(self, counter: int, start: ScheduledLease) -> bool:
        held = self._held.get(key_of(start.lease))
        return held is not None and held[0] == counter

    def _lag_of(self, host: str | None) -> float:
        return self._lag * spread_of(host) if self._lag and host else 0.0

    def _earliest(self, host: str | None, *lasts: dict[str, float]) -> float:
        known = [last[host] for last in lasts if host in last] if host else []
        return max(known) + self._min_gap if known else 0.0

    def _count(self, is_late: bool, now: float) -> None:
        counts = self._starts_in.setdefault(int(now / self._span), [0, 0])
        counts[0] += 1
        counts[1] += is_late
        if len(self._starts_in) > RECENT_SPANS:
            del self._starts_in[next(iter(self._starts_in))]

    def _record(self, moments: dict[str, float], host: str, now: float) -> dict[str, float]:
        if len(moments) >= MAX_HOSTS:
            moments = {name: moment for name, moment in moments.items() if moment + self._gap > now}
        moments[host] = now
        return moments


def lag_of(gap: timedelta) -> float:
    """Return by how many seconds every start of a run with this gap is delayed, at least."""
    return min(gap.total_seconds() / 2, MAX_LAG)


def tolerance_of(gap: timedelta) -> float:
    """Return by how many seconds a request may be later than its start, in a run with this gap."""
    return max(gap.total_seconds() * TOLERANCE, MIN_TOLERANCE)


def spread_of(host: str) -> float:
    """Return by which factor the starts of a host are delayed more than `lag_of` says, from 1 to 2."""
    # A checksum, not `hash`: every worker must compute the same lag, and `hash` is salted per process.
    return 1 + crc32(host.encode()) / 2**32


def key_of(lease: Lease) -> LeaseKey:
    """Return what identifies a lease."""
    return lease.task_id, lease.token


def host_of(lease: Lease) -> str | None:
    """Return the host of a lease's task; its URL is canonical, so it need not be parsed."""
    url = lease.task.url
    return url.split("/", 3)[2] if url else None
