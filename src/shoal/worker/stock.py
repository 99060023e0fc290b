"""The leases that a worker has claimed and not started yet."""

from collections.abc import Iterable
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

from shoal.core.model import Lease

# Every start of a polite run is put off by as much, so that an answer which is late makes no start late; and
# those of one host, by whichever worker, by up to as much again: hosts that are claimed together and have the
# same gap would else be asked in the same moment for ever, and all but the first of them late.
LONGEST_LAG = 0.05  # seconds
# A start that is later than this would come too close to the next, which another worker may have. For gaps
# below a tenth of a second no machine is that punctual.
TOLERANCE, LEAST_TOLERANCE = 0.04, 0.004  # of the gap; seconds
# After a start that was late, one on time would come too close: what was lost is made good little by little.
CATCH_UP, LEAST_CATCH_UP = 0.02, 0.001  # of the gap; seconds
MOST_RECENT = 20  # spans
# One pause of the process makes every start late that fell into it. They count as one late span: a machine is
# always late when most of its spans are.
LONGEST_SPAN = 1.0  # seconds; for shorter gaps, the gap
FORGET_AFTER = 10_000  # hosts

Name = tuple[str, int]  # a lease's task and token


class Start(NamedTuple):
    """A lease, and when by the worker's clock its host may be asked, unless its page is at hand."""

    lease: Lease
    due: float
    kept: bool = False


class Stock:
    """Holds leases until their start has come, and tells whether one has come too late."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap.total_seconds()
        self._lag = min(self._gap / 2, LONGEST_LAG)
        self._tolerance = max(self._gap * TOLERANCE, LEAST_TOLERANCE)
        self._shortest = self._gap - max(self._gap * CATCH_UP, LEAST_CATCH_UP)
        self._heap: list[tuple[float, int, Start]] = []
        self._places: dict[Name, int] = {}  # of every lease; what lies in the heap under another is void
        self._counter = 0
        self._last_asked: dict[str, float] = {}
        self._span = min(self._gap, LONGEST_SPAN)
        self._starts_in: dict[int, list[int]] = {}  # of each recent span: how many starts, and how many late

    def __len__(self) -> int:
        return len(self._places)

    def put(self, leases: Iterable[Lease], claimed_at: float) -> None:
        """Keep leases that were claimed at this moment of the worker's clock."""
        for lease in leases:
            due = claimed_at + lease.start_in.total_seconds() + self._lag_of(host_of(lease))
            self._push(due, Start(lease, due))

    def hasten(self, lease: Lease) -> None:
        """Let a lease start now, for its page is at hand; if it is still here."""
        if _name(lease) in self._places:
            self._push(0.0, Start(lease, 0.0, kept=True))

    def pop(self, now: float) -> Start | None:
        """Return a lease whose start has come, or None."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, start = heappop(self._heap)
            earliest = 0.0 if start.kept else self._earliest(host_of(start.lease))
            if earliest <= now:
                del self._places[_name(start.lease)]
                return start
            self._push(earliest, start)
        return None

    def in_time(self, start: Start, now: float) -> bool:
        """Say whether the host may still be asked at this moment; if so, it counts as asked."""
        host = host_of(start.lease)
        if not self._gap or host is None:
            return True
        is_late = now > start.due + self._tolerance
        self._count(is_late, now)
        # On a machine that is always late nothing would ever start. Then the gap is kept within this worker.
        if is_late and (not self._is_always_late() or self._earliest(host) > now):
            return False
        self._remember(host, now)
        return True

    def next_due(self) -> float | None:
        """Return when the next lease may start, by the worker's clock."""
        while self._heap and self._places.get(_name(self._heap[0][2].lease)) != self._heap[0][1]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def empty(self) -> list[Lease]:
        """Take out every lease that was not started."""
        leases = {_name(start.lease): start.lease for _, _, start in self._heap}
        kept = [leases[name] for name in self._places]
        self._heap.clear()
        self._places.clear()
        return kept

    def _push(self, due: float, start: Start) -> None:
        self._counter += 1
        self._places[_name(start.lease)] = self._counter
        heappush(self._heap, (due, self._counter, start))

    def _lag_of(self, host: str | None) -> float:
        return self._lag * (1 + crc32(host.encode()) / 2**32) if self._lag and host else 0.0

    def _earliest(self, host: str | None) -> float:
        last = self._last_asked.get(host) if host else None
        return 0.0 if last is None else last + self._shortest

    def _count(self, is_late: bool, now: float) -> None:
        counts = self._starts_in.setdefault(int(now / self._span), [0, 0])
        counts[0] += 1
        counts[1] += is_late
        if len(self._starts_in) > MOST_RECENT:
            del self._starts_in[next(iter(self._starts_in))]

    def _is_always_late(self) -> bool:
        late_spans = sum(2 * late > starts for starts, late in self._starts_in.values())
        return 2 * late_spans > MOST_RECENT

    def _remember(self, host: str, now: float) -> None:
        if len(self._last_asked) >= FORGET_AFTER:
            recent = {name: asked for name, asked in self._last_asked.items() if asked + self._gap > now}
            self._last_asked = recent
        self._last_asked[host] = now


def _name(lease: Lease) -> Name:
    return lease.task_id, lease.token


def host_of(lease: Lease) -> str | None:
    """Return the host of a lease's task; its URL is canonical, so that it need not be parsed."""
    url = lease.task.url
    return url.split("/", 3)[2] if url else None
