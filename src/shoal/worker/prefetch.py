"""The prefetch buffer: leases that a worker has claimed and not started yet."""

from collections.abc import Iterable
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

from shoal.core.model import Lease

# Every start of a polite run is delayed by this much, so that a late reply makes no start late; and the
# starts of one host, on any worker, by up to as much again: hosts that are claimed together and have the same
# gap would otherwise get their requests at the same moment for ever, all but the first of them late.
MAX_LAG = 0.05  # seconds
# A start that is later than this would come too close to the next one, which another worker may have. For
# gaps below a tenth of a second no machine is that punctual.
TOLERANCE, MIN_TOLERANCE = 0.04, 0.004  # of the gap; seconds
# After a late start, one on time would come too close: the lost time is made up little by little.
CATCH_UP, MIN_CATCH_UP = 0.02, 0.001  # of the gap; seconds
RECENT_SPANS = 20
# One pause of the process delays every start that falls into it. They count as one late span: a machine is
# always late when most of its spans are.
MAX_SPAN = 1.0  # seconds; for shorter gaps, the gap
MAX_HOSTS = 10_000

LeaseKey = tuple[str, int]  # a lease's task and token


class ScheduledLease(NamedTuple):
    """A lease, and when by the worker's clock its request may be sent, unless its page is cached."""

    lease: Lease
    due: float
    is_cached: bool = False
    may_be_late: bool = False  # because a hook of the user took its time


class PrefetchBuffer:
    """Holds leases until they are due, and checks that they do not start too late."""

    def __init__(self, gap: timedelta) -> None:
        self.set_gap(gap)
        self._heap: list[tuple[float, int, ScheduledLease]] = []
        self._positions: dict[LeaseKey, int] = {}  # of every lease; heap entries with another one are void
        self._counter = 0
        self.late_starts = 0  # requests that were sent although another worker's may be close to them
        self._last_request: dict[str, float] = {}

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap = gap.total_seconds()
        self._lag = min(self._gap / 2, MAX_LAG)
        self._tolerance = max(self._gap * TOLERANCE, MIN_TOLERANCE)
        self._min_gap = self._gap - max(self._gap * CATCH_UP, MIN_CATCH_UP)
        self._span = min(self._gap, MAX_SPAN)
        self._starts_in: dict[int, list[int]] = {}  # of each recent span: starts, and late starts

    def __len__(self) -> int:
        return len(self._positions)

    def put(self, leases: Iterable[Lease], claimed_at: float) -> None:
        """Add leases that were claimed at this moment of the worker's clock."""
        for lease in leases:
            due = claimed_at + lease.start_in.total_seconds() + self._lag_of(host_of(lease))
            self._push(due, ScheduledLease(lease, due))

    def start_now(self, lease: Lease) -> None:
        """Make a lease due now, because its page is cached; nothing if it was started already."""
        if key_of(lease) in self._positions:
            self._push(0.0, ScheduledLease(lease, 0.0, is_cached=True))

    def pop(self, now: float) -> ScheduledLease | None:
        """Remove and return a lease that is due, or None."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, start = heappop(self._heap)
            earliest = 0.0 if start.is_cached else self._earliest(host_of(start.lease))
            if earliest <= now:
                del self._positions[key_of(start.lease)]
                return start
            self._push(earliest, start)
        return None

    def try_start(self, start: ScheduledLease, now: float) -> bool:
        """Return whether the request may still be sent at this moment; if so, it counts as sent."""
        host = host_of(start.lease)
        if not self._gap or host is None:
            return True
        is_late = now > start.due + self._tolerance
        if not start.may_be_late:
            self._count(is_late, now)
        # On a machine that is always late nothing would ever start. Then the gap is kept within this worker.
        may_be_late = start.may_be_late or self._is_always_late()
        if is_late:
            if not may_be_late or self._earliest(host) > now:
                return False
            self.late_starts += not start.may_be_late
        self._record_request(host, now)
        return True

    def next_due(self) -> float | None:
        """Return when the next lease is due, by the worker's clock."""
        while self._heap and self._positions.get(key_of(self._heap[0][2].lease)) != self._heap[0][1]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def clear(self) -> list[Lease]:
        """Remove and return every lease."""
        by_key = {key_of(start.lease): start.lease for _, _, start in self._heap}
        leases = [by_key[key] for key in self._positions]
        self._heap.clear()
        self._positions.clear()
        return leases

    def _push(self, due: float, start: ScheduledLease) -> None:
        self._counter += 1
        self._positions[key_of(start.lease)] = self._counter
        heappush(self._heap, (due, self._counter, start))

    def _lag_of(self, host: str | None) -> float:
        return self._lag * (1 + crc32(host.encode()) / 2**32) if self._lag and host else 0.0

    def _earliest(self, host: str | None) -> float:
        last = self._last_request.get(host) if host else None
        return 0.0 if last is None else last + self._min_gap

    def _count(self, is_late: bool, now: float) -> None:
        counts = self._starts_in.setdefault(int(now / self._span), [0, 0])
        counts[0] += 1
        counts[1] += is_late
        if len(self._starts_in) > RECENT_SPANS:
            del self._starts_in[next(iter(self._starts_in))]

    def _is_always_late(self) -> bool:
        late_spans = sum(2 * late > starts for starts, late in self._starts_in.values())
        return 2 * late_spans > RECENT_SPANS

    def _record_request(self, host: str, now: float) -> None:
        if len(self._last_request) >= MAX_HOSTS:
            recent = {name: sent for name, sent in self._last_request.items() if sent + self._gap > now}
            self._last_request = recent
        self._last_request[host] = now


def key_of(lease: Lease) -> LeaseKey:
    """Return what identifies a lease."""
    return lease.task_id, lease.token


def host_of(lease: Lease) -> str | None:
    """Return the host of a lease's task; its URL is canonical, so it need not be parsed."""
    url = lease.task.url
    return url.split("/", 3)[2] if url else None
