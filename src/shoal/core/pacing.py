"""The rate limit of a host: when it may get its next request. Pure functions, the clock passed in.

Each queue keeps the state of its hosts (last starts, pause, slowdown) and applies the limit in its claims:
`queue/sqlite/sql/claim.sql`, `queue/postgres/functions/50_claim.sql`, `queue/redis/lua/lib/30_hosts.lua`.
"""

from datetime import timedelta
from typing import NamedTuple

from shoal.core.model import MINUTE, SECOND, ZERO

BURST_HORIZON = SECOND
MAX_LEAD = 2 * SECOND  # of a claim: leases that wait count against `per_host`
MIN_SLOWDOWN, MAX_SLOWDOWN = SECOND / 10, MINUTE
MAX_PAUSE = 60 * MINUTE
NEGLIGIBLE = timedelta(milliseconds=50)


class Slowdown(NamedTuple):
    """How to treat a host that returned 429 or 503: the gap from now on, and a pause first."""

    delay: timedelta
    pause: timedelta


def gap(run_delay: timedelta, last_delay: timedelta | None, host_delay: timedelta | None) -> timedelta:
    """Return the minimum time between two starts: the maximum of run, last start and host."""
    return max(run_delay, last_delay or ZERO, host_delay or ZERO)


def burst(gap: timedelta, slots: int, limit: int) -> int:
    """Return how many tasks of a free host one claim may take, so that the last starts within the horizon."""
    most = max(0, min(slots, limit))
    if gap <= ZERO:
        return most
    starts = -(-BURST_HORIZON // gap)  # rounded up: the first start is at zero
    return min(most, starts)


def slower(delay: timedelta, retry_after: timedelta | None = None) -> Slowdown:
    """Return how to treat a host after a 429 or 503; the pause is zero unless it sent Retry-After."""
    return Slowdown(
        delay=min(max(2 * delay, MIN_SLOWDOWN), MAX_SLOWDOWN),
        pause=min(max(retry_after or ZERO, ZERO), MAX_PAUSE),
    )


def recovered(delay: timedelta, floor: timedelta = ZERO) -> timedelta:
    """Return a slowed host's delay after a success: a fifth less, but not below `floor`."""
    less = delay * 4 // 5
    return less if less > max(floor, NEGLIGIBLE) else floor
