"""The last hour of a run or of the whole fleet, as points of a chart."""

from collections import deque
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

HISTORY_SPAN = timedelta(hours=1)
MAX_POINTS = 3_600  # per run, whatever the sample interval
GAP = 20.0  # seconds without a sample that a chart shows as a gap


class Point(NamedTuple):
    """A run, or the fleet, at one moment."""

    at: float  # Unix time in seconds
    rate: float
    completed: int
    pending: int
    dead: int
    errors: int = 0


class History:
    """A bounded list of points, oldest first."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MAX_POINTS)

    def __len__(self) -> int:
        return len(self._points)

    @property
    def last_at(self) -> float:
        """The time of the newest point; zero if there is none."""
        return self._points[-1].at if self._points else 0.0

    def add(self, point: Point) -> None:
        """Add a point, and drop points older than an hour."""
        self._points.append(point)
        while self._points[0].at < point.at - HISTORY_SPAN.total_seconds():
            self._points.popleft()

    def points(self) -> list[Point]:
        """Return the points, oldest first."""
        return list(self._points)

    def new_errors(self, now: datetime, within: timedelta) -> int:
        """Return the number of new errors within a period.

        The total falls when a worker leaves and takes its errors along; such a fall does not count.
        """
        start = (now - within).timestamp()
        counts = [point.errors for point in self._points if point.at >= start]
        return sum(max(0, after - before) for before, after in pairwise(counts))


def columns(points: list[Point]) -> list[list[float | None]]:
    """Return times, rates, completed, pending and dead for a chart.

    A gap has no rate, and neither has the first point: a rate needs two samples.
    """
    table: list[list[float | None]] = [[], [], [], [], []]
    before = points[0].at if points else 0.0
    for point in points:
        if point.at - before > GAP:
            _append(table, (before + GAP / 2, None, None, None, None))
        rate = round(point.rate, 2) if table[0] else None
        _append(table, (point.at, rate, point.completed, point.pending, point.dead))
        before = point.at
    return table


def merge_rates(
    stored: list[tuple[float, float | None]], sampled: list[list[float | None]], *, is_over: bool
) -> list[list[float | None]]:
    """Return times and rates: the stored ones, then those that were sampled later.

    The samples of a run that is over only show that nothing happens any more.
    """
    if not stored:
        return sampled
    last = stored[-1][0]
    later = [] if is_over else [pair for pair in zip(*sampled, strict=True) if (pair[0] or 0) > last]
    if later and (later[0][0] or 0) - last > GAP:
        later = [(last + 0.1, None), *later]
    elif later and later[0][1] is None:
        later = later[1:]  # the first sample has no rate, but here is one before it
    pairs = [*stored, *later]
    return [[at for at, _ in pairs], [rate for _, rate in pairs]]


def _append(table: list[list[float | None]], row: tuple[float | None, ...]) -> None:
    for column, value in zip(table, row, strict=True):
        column.append(value)
