"""When a worker claims again after a claim that found nothing: exponential backoff with jitter.

The store says when the next host is free. A worker whose last claim found something comes on time for it.
One that came in vain comes later by a random time, which grows with each such claim: thousands of workers
that wait for the same host would otherwise claim at the same moment, all but one of them in vain.

Only decisions: times are the worker's clock in seconds, and passed in.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from shoal.core.model import Grant
from shoal.worker.ipc.protocol import ExitReason

# Other workers and producers may add tasks at any time. One worker of a pool finds them soon and wakes the
# others, which rest while they hold nothing: the polls of thousands would be most of the store's work.
MAX_POLL_INTERVAL_SECONDS, MAX_RESTING_INTERVAL_SECONDS = 2.0, 30.0
POLL_JITTER = 0.2  # of an interval: workers that were started together must not poll together
FIRST_BACKOFF, GROWTH = 0.02, 3.0  # seconds; short, because the end of the run may be near
MAX_MISSES = 20  # that are counted; enough to reach any maximum
# With a gap most claims that follow a settlement find nothing, so they wait for more settlements.
MAX_PAUSE, PAUSE_SHARE = 0.25, 0.25  # seconds; of the gap
MAX_NEEDED_DELAY_SECONDS = 0.05  # seconds
MIN_WAIT = 0.001  # seconds
EARLY = 0.002  # seconds by which a timer may fire too early


class NextClaim(NamedTuple):
    """What a worker does before its next claim."""

    wait: float = 0.0  # seconds, unless something happens
    yield_for: float = 0.0  # seconds before that in which nothing but a freed host makes it claim
    refresh_plan: bool = False
    end: ExitReason | None = None


class Polling:
    """Decides for one worker when to claim again."""

    def __init__(
        self,
        gap: timedelta,
        *,
        may_rest: bool = False,
        is_needed: bool = False,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """A worker may rest if another one of its pool looks for the same tasks.

        One that `is_needed` has proxies that no other one has, so it never comes much later.
        """
        self._max_interval = MAX_RESTING_INTERVAL_SECONDS if may_rest else MAX_POLL_INTERVAL_SECONDS
        self._has_pauses = False
        self._uniform, self._is_needed = uniform, is_needed
        self._planned: float | None = None  # when to claim again, unless something happens
        # Claims in a row that came when they were planned, and found nothing. A new worker begins with one:
        # thousands that start together must not come together for the first host either.
        self._misses = 1
        self.set_gap(gap)

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap = gap.total_seconds()

    def set_pauses(self, *, has_pauses: bool) -> None:
        """Set whether the workers pause between tasks: each takes one, so all are needed for a free host."""
        self._has_pauses = has_pauses

    def poll_soon(self) -> None:
        """Forget that nothing was found: something was, or may be now."""
        self._misses, self._planned = 0, None

    def on_nothing(self, grant: Grant, sent_at: float, now: float, *, is_holding: bool) -> NextClaim:
        """Record a claim that found nothing, and return when to claim again."""
        # A claim that a settlement brought forward says nothing about who else waits for the same hosts, nor
        # does the first one after a success.
        if self._planned is not None and sent_at >= self._planned - EARLY:
            self._misses = min(self._misses + 1, MAX_MISSES)
        wait = self._next_wait(grant, is_holding=is_holding)
        self._planned = now + wait
        pause = min(wait, MAX_PAUSE, PAUSE_SHARE * self._gap) if is_holding else 0.0
        return NextClaim(wait - pause, pause)

    def _next_wait(self, grant: Grant, *, is_holding: bool) -> float:
        backoff = FIRST_BACKOFF * GROWTH**self._misses
        longest = MAX_POLL_INTERVAL_SECONDS if is_holding else self._max_interval
        # A worker that holds leases need not poll soon: each of them wakes it when it is settled.
        interval = longest if is_holding else min(backoff, longest)
        due = None if grant.next_due is None else grant.next_due.total_seconds()
        if due is None or due > max(interval, MAX_POLL_INTERVAL_SECONDS):
            return interval * self._uniform(1 - POLL_JITTER, 1)
        # Without a gap a worker that holds leases may be the only one that can handle what it waits for.
        is_on_time = not self._misses or (is_holding and not self._gap)
        delay = 0.0 if is_on_time else min(backoff, longest)
        if self._has_pauses:
            delay = min(delay, MAX_POLL_INTERVAL_SECONDS)
        if self._is_needed:
            delay = min(delay, MAX_NEEDED_DELAY_SECONDS, PAUSE_SHARE * self._gap)
        return max(due + self._uniform(0, delay), MIN_WAIT)
