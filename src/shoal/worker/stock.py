"""The leases that a worker has claimed and not started yet."""

from collections.abc import Iterable
from datetime import timedelta
from heapq import heappop, heappush

from shoal.core.model import Lease

# A late start may be followed a little sooner than the gap, so that lateness does not add up.
CATCHING_UP = 0.97
# Every start of a polite run is put off by as much, so that an answer which is late makes no start late: one
# that is would come too close to the next, which another worker may have.
LONGEST_LAG = 0.05  # seconds
FORGET_AFTER = 10_000  # hosts


class Stock:
    """Holds leases until their start has come; never lets two starts of a host come closer than the gap."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap.total_seconds() * CATCHING_UP
        self._lag = min(gap.total_seconds() / 2, LONGEST_LAG)
        self._heap: list[tuple[float, int, Lease]] = []
        self._counter = 0
        self._last_start: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, leases: Iterable[Lease], claimed_at: float) -> None:
        """Keep leases that were claimed at this moment of the worker's clock."""
        for lease in leases:
            self._push(claimed_at + lease.start_in.total_seconds() + self._lag, lease)

    def pop(self, now: float) -> Lease | None:
        """Return a lease whose start has come, or None."""
        while self._heap and self._heap[0][0] <= now:
            _, _, lease = heappop(self._heap)
            due = self._earliest(lease)
            if due <= now:
                return self._started(lease, now)
            self._push(due, lease)
        return None

    def next_due(self) -> float | None:
        """Return when the next lease may start, by the worker's clock."""
        return self._heap[0][0] if self._heap else None

    def empty(self) -> list[Lease]:
        """Take out every lease that was not started."""
        leases = [lease for _, _, lease in self._heap]
        self._heap.clear()
        return leases

    def _push(self, due: float, lease: Lease) -> None:
        self._counter += 1
        heappush(self._heap, (due, self._counter, lease))

    def _earliest(self, lease: Lease) -> float:
        host = host_of(lease)
        if not self._gap or host is None or host not in self._last_start:
            return 0.0
        return self._last_start[host] + self._gap

    def _started(self, lease: Lease, now: float) -> Lease:
        host = host_of(lease)
        if self._gap and host is not None:
            if len(self._last_start) >= FORGET_AFTER:
                self._forget(now)
            self._last_start[host] = now
        return lease

    def _forget(self, now: float) -> None:
        recent = {host: start for host, start in self._last_start.items() if start + self._gap > now}
        self._last_start = recent


def host_of(lease: Lease) -> str | None:
    """Return the host of a lease's task; its URL is canonical, so that it need not be parsed."""
    url = lease.task.url
    return url.split("/", 3)[2] if url else None
