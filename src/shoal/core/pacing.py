"""When a host may be asked: pure functions, the clock passed in."""

from datetime import datetime, timedelta
from typing import NamedTuple

from shoal.core.model import MINUTE, SECOND, ZERO

BURST_HORIZON = SECOND
SHORTEST_SLOWDOWN, LONGEST_SLOWDOWN = SECOND / 10, MINUTE
LONGEST_PAUSE = 60 * MINUTE
NEGLIGIBLE = timedelta(milliseconds=50)


class Slowdown(NamedTuple):
    """How a host that complained is treated: the gap from now on, and the rest it gets first."""

    delay: timedelta
    pause: timedelta


def next_start(last: datetime | None, now: datetime, gap: timedelta) -> datetime:
    """Return the first moment the host may be asked again; `now` if it is free."""
    return now if last is None else max(now, last + gap)


def gap(run_delay: timedelta, last_delay: timedelta | None, host_delay: timedelta | None) -> timedelta:
    """Return the least time between two starts: the largest of the run's, the last start's and the host's."""
    return max(run_delay, last_delay or ZERO, host_delay or ZERO)


def burst(gap: timedelta, slots: int, limit: int) -> int:
    """Return how many tasks of one free host one claim may take, the last starting within the horizon."""
    room = max(0, min(slots, limit))
    if gap <= ZERO:
        return room
    starts = -(-BURST_HORIZON // gap)  # rounded up: the first start is at zero
    return min(room, starts)


def slower(delay: timedelta, retry_after: timedelta | None = None) -> Slowdown:
    """Return how to treat a host after a 429 or 503; the pause is zero unless it asked for one."""
    return Slowdown(
        delay=min(max(2 * delay, SHORTEST_SLOWDOWN), LONGEST_SLOWDOWN),
        pause=min(max(retry_after or ZERO, ZERO), LONGEST_PAUSE),
    )


def recovered(delay: timedelta, floor: timedelta = ZERO) -> timedelta:
    """Return a slowed host's delay after a success: a fifth less, and `floor` in the end."""
    less = delay * 4 // 5
    return less if less > max(floor, NEGLIGIBLE) else floor
