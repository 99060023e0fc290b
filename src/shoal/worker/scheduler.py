"""What a worker does next: how many tasks to claim, what to start, when to look again, when to end.

Only decisions: no I/O, no asyncio, no clock. Times are the worker's clock in seconds, and passed in.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import NamedTuple, Protocol

from shoal.core.model import Grant, Lease, Outcome, Release
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.prefetch import LeaseKey, PrefetchBuffer, ScheduledLease, key_of
from shoal.worker.slots import ConcurrencySlots

MAX_CALLS_PER_SLOT = 4  # calls that a worker holds for each task that it may handle at once

Pause = tuple[timedelta, timedelta]  # the shortest and the longest between two tasks


class Stop(Enum):
    """How a worker stops."""

    FINISH = auto()  # finish started tasks, release the others
    RELEASE = auto()  # release everything at once


class OwnPartitions(Protocol):
    """The partitions that a worker may claim by the current plan."""

    partitions: frozenset[str]

    def is_fresh(self, now: float) -> bool:
        """Return whether the plan was read recently."""


class NumberedLease(NamedTuple):
    """A lease, and the number by which worker and supervisor know it."""

    number: int
    lease: Lease


class NumberedStart(NamedTuple):
    """A lease that has a slot and is to be started now, and its number."""

    number: int
    start: ScheduledLease


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
    """Decides when to claim again after a claim that found nothing: exponential backoff with jitter.

    The store says when the next host is free. A worker whose last claim found something comes on time for it.
    One that came in vain comes later by a random time, which grows with each such claim: thousands of workers
    that wait for the same host would otherwise claim at the same moment, all but one of them in vain.
    """

    def __init__(
        self,
        gap: timedelta,
        *,
        may_rest: bool = False,
        is_needed: bool = False,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """A worker may rest if another one of its pool looks for the same tasks.

        One that `is_needed` never comes much later: it has proxies that no other one has.
        """
        self._max_interval = MAX_RESTING_INTERVAL_SECONDS if may_rest else MAX_POLL_INTERVAL_SECONDS
        self.uniform, self._is_needed = uniform, is_needed
        self.has_pauses = False  # between tasks: each worker has one, so all are needed for a free host
        self._planned: float | None = None  # when to claim again, unless something happens
        # Claims in a row that came when they were planned, and found nothing. A new worker begins with one:
        # thousands that start together must not come together for the first host either.
        self._misses = 1
        self.set_gap(gap)

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap = gap.total_seconds()

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
            return interval * self.uniform(1 - POLL_JITTER, 1)
        # Without a gap a worker that holds leases may be the only one that can handle what it waits for.
        is_on_time = not self._misses or (is_holding and not self._gap)
        delay = 0.0 if is_on_time else min(backoff, longest)
        if self.has_pauses:
            delay = min(delay, MAX_POLL_INTERVAL_SECONDS)
        if self._is_needed:
            delay = min(delay, MAX_NEEDED_DELAY_SECONDS, PAUSE_SHARE * self._gap)
        return max(due + self.uniform(0, delay), MIN_WAIT)


class Scheduler:
    """Decides for one worker; knows every lease that the worker holds."""

    def __init__(
        self,
        *,
        lease: timedelta,
        gap: timedelta,
        concurrency: int | None = None,
        max_in_flight: float = math.inf,
        batch: int = 50,
        pause: Pause | None = None,
        share: OwnPartitions | None = None,
        polling: Polling | None = None,
        suspects: Mapping[str, int] | None = None,
        starts_early: bool = False,
    ) -> None:
        self.slots = ConcurrencySlots(concurrency, max_in_flight)
        self._given_concurrency = concurrency
        self._prefetch = PrefetchBuffer(gap, starts_early=starts_early)
        self._lease, self.gap, self._rest_until = lease.total_seconds(), gap, 0.0
        self._batch, self._share = batch, share
        self._numbers: dict[LeaseKey, int] = {}  # of every lease that it holds
        self._started: dict[int, Lease] = {}  # not finished yet, by number
        self._missed = set[LeaseKey]()  # started tasks that end without a request for their page
        self._suspects = suspects or {}
        self._limits: dict[int, int] = {}  # of the suspects that it holds, by number
        self._ended = set[int]()  # tasks that have ended and are not settled yet; only if there are suspects
        self.polling = polling or Polling(gap)
        self._set_pause(pause)
        self._stop: Stop | None = None

    # What the worker holds

    @property
    def held(self) -> int:
        """The number of leases that the worker holds: prefetched, started, or not settled yet."""
        return len(self._numbers)

    def number_of(self, lease: Lease) -> int:
        """Return the number of a lease that the worker holds."""
        return self._numbers[key_of(lease)]

    def started_lease(self, number: int) -> Lease | None:
        """Return the lease with this number if its task is in progress; safe in any thread."""
        return self._started.get(number)

    @property
    def started(self) -> list[Lease]:
        """The leases whose tasks are in progress."""
        return list(self._started.values())

    # Claim

    def next_claim_size(self, now: float) -> int:
        """Return how many tasks to claim now; 0 as long as enough are held, or the worker pauses."""
        if self.rest_left(now):
            return 0  # the start that the store gives now would be missed, and the task released
        ahead = 0 if self._pause or self._limits else self.slots.prefetch_limit(self._batch, now)
        most = (
            min(self.slots.concurrency, *self._limits.values()) + ahead
            if self._limits
            else self.slots.concurrency + ahead
        )
        wanted = min(self._batch, most - self.slots.taken - len(self._prefetch))
        # Few large claims are cheaper than many small ones.
        worthwhile = max(1, min(self._batch, most) // 2)
        return wanted if wanted >= worthwhile or not self._numbers else 0

    def rest_left(self, now: float) -> float:
        """Return the seconds left of the pause after a task."""
        return max(0.0, self._rest_until - now)

    @property
    def is_low(self) -> bool:
        """Whether so little is prefetched that the next claim should not wait for anything."""
        return len(self._prefetch) <= self._batch // 2

    def after_claim(self, grant: Grant | None, sent_at: float, now: float) -> NextClaim:
        """Return what follows a claim; None is a claim after the last page that the run may fetch."""
        if grant is None:
            return NextClaim(end=ExitReason.BUDGET)
        if grant.drained:
            return NextClaim(end=ExitReason.DRAINED)
        if grant.outdated:
            return NextClaim(refresh_plan=True)
        if grant.leases:
            return NextClaim()
        return self.polling.on_nothing(grant, sent_at, now, is_holding=bool(self._numbers))

    def may_accept_call(self, lease: Lease) -> bool:
        """Return whether the worker has room for a lease that a caller sends, and does not know it yet."""
        is_known = key_of(lease) in self._numbers
        return not (is_known or self._stop or self.held >= MAX_CALLS_PER_SLOT * self.slots.concurrency)

    def accept(
        self,
        leases: Sequence[Lease],
        numbers: Iterable[int],
        claimed_at: float,
        now: float,
        *,
        is_valid: bool = True,
        uncertainty: float = 0.0,
    ) -> list[Lease]:
        """Hold and prefetch claimed leases; return those that must be released instead.

        `claimed_at` may be later by the `uncertainty`, in seconds.
        """
        self._numbers.update(zip(map(key_of, leases), numbers, strict=True))
        # While the reply was on its way, the plan may have changed or its leases may have expired.
        is_usable = is_valid and now - claimed_at + uncertainty <= self._lease
        wanted = [lease for lease in leases if is_usable and self._may_start(lease)]
        if self._suspects:
            wanted = self._put_suspects_first(wanted)
        self._prefetch.put(wanted, claimed_at)
        return [] if len(wanted) == len(leases) else [lease for lease in leases if lease not in wanted]

    def _put_suspects_first(self, leases: list[Lease]) -> list[Lease]:
        for lease in leases:
            if limit := self._suspects.get(lease.task_id):
                self._limits[self.number_of(lease)] = limit
        return sorted(leases, key=lambda lease: self._suspects.get(lease.task_id, self.slots.concurrency))

    def _may_start(self, lease: Lease) -> bool:
        is_mine = self._share is None or lease.task.partition in self._share.partitions
        return is_mine and self._stop is None

    # Start

    def start_now(self, lease: Lease) -> None:
        """Make a prefetched lease due now, because its page is cached."""
        self._prefetch.start_now(lease)

    def start_due(self, now: float) -> list[NumberedStart]:
        """Give slots to the leases that are due, and return them; all of them must be started now."""
        starts = []
        while self._may_start_any(now) and now >= self._rest_until and (start := self._prefetch.pop(now)):
            number = self.number_of(start.lease)
            self.slots.take(number, now)
            self._started[number] = start.lease
            if number in self._limits:
                start = start._replace(needs_turn=True)  # it waits for others to end
            starts.append(NumberedStart(number, start))
        return starts

    def next_start_at(self, now: float) -> float | None:
        """Return when to call `start_due` again; None if a free slot or a new plan must come first."""
        due = self._prefetch.next_due()
        return max(due, self._rest_until) if due is not None and self._may_start_any(now) else None

    def _may_start_any(self, now: float) -> bool:
        # With an old plan, this worker may be considered dead, and others may have its partitions.
        is_planned = self._share is None or self._share.is_fresh(now)
        return self.slots.is_free and is_planned and self._may_start_beside_suspects()

    def _may_start_beside_suspects(self) -> bool:
        # What a task has left may end the process after it: it counts until it is settled.
        return not self._limits or len(self._started) + len(self._ended) < min(self._limits.values())

    def request_at(self, start: ScheduledLease) -> float:
        """Return when a task that was started early may send its request."""
        return self._prefetch.request_at(start)

    def try_request(self, start: ScheduledLease, now: float, *, is_strict: bool = False) -> bool:
        """Return whether a started task may still send its request; if so, the request counts as sent."""
        return self._prefetch.try_start(start, now, is_strict=is_strict)

    def miss_turn(self, lease: Lease) -> None:
        """Record that a started task ends without a request for its page."""
        self._missed.add(key_of(lease))

    @property
    def is_always_late(self) -> bool:
        """Whether this worker is late so often that it sends requests after their time."""
        return self._prefetch.is_always_late

    # End

    def finish(self, number: int, outcome: Outcome, now: float) -> None:
        """End a started task: its slot is free, and the pause after it begins."""
        lease = self._started.pop(number)
        if self._suspects:
            self._ended.add(number)
        self.slots.leave(number, now)
        # After one whose start was missed there is no pause: on a busy machine most of the time would go.
        has_missed = key_of(lease) in self._missed
        self._missed.discard(key_of(lease))
        if self._pause and not has_missed and (outcome.asked or not isinstance(outcome, Release)):
            shortest, longest = (bound.total_seconds() for bound in self._pause)
            self._rest_until = now + self.polling.uniform(shortest, longest)

    def should_settle_now(self, outcome: Outcome) -> bool:
        """Return whether an outcome is settled without waiting for others."""
        # With nothing left to start, the next claim may be waiting for what this outcome frees at its host.
        # A suspect, or one that waits for others to be settled, holds up all tasks of the worker.
        return not self._prefetch or bool(self._limits) or self.frees_host(outcome)

    def frees_host(self, outcome: Outcome) -> bool:
        """Return whether an outcome gives an unused turn at its host back."""
        return not outcome.asked and bool(self.gap)

    def forget(self, lease: Lease) -> int | None:
        """Forget a lease that is settled, and return its number; None if it is not known."""
        number = self._numbers.pop(key_of(lease), None)
        if self._suspects and number is not None:
            self._limits.pop(number, None)
            self._ended.discard(number)
        return number

    @property
    def may_hold_suspects(self) -> bool:
        """Whether tasks that ended earlier workers may be among those of this one."""
        return bool(self._suspects)

    # Release

    def take_unreachable(self, now: float) -> list[NumberedLease]:
        """Remove and return the prefetched leases, if no slot becomes free: other workers may have one."""
        return self.take_prefetched() if self.slots.is_stuck(now) else []

    def take_prefetched(self) -> list[NumberedLease]:
        """Remove and return every prefetched lease; all of them must be released."""
        return [NumberedLease(self.number_of(lease), lease) for lease in self._prefetch.clear()]

    def change_settings(self, gap: timedelta, pause: Pause | None, now: float) -> list[NumberedLease]:
        """Use changed settings; return the leases to release: their starts were planned with the old ones."""
        self.gap = gap
        self._set_pause(pause)
        self._rest_until = min(self._rest_until, now + pause[1].total_seconds() if pause else 0.0)
        self._prefetch.set_gap(gap)
        self.polling.set_gap(gap)
        return self.take_prefetched()

    def _set_pause(self, pause: Pause | None) -> None:
        # A worker that pauses between tasks handles one at a time.
        self.slots.set_concurrency(1 if pause else self._given_concurrency)
        self.polling.has_pauses = pause is not None
        self._pause = pause

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop is not None

    @property
    def is_releasing(self) -> bool:
        """Whether even started tasks are given up."""
        return self._stop is Stop.RELEASE

    def stop(self, how: Stop) -> list[NumberedLease]:
        """Start nothing more; return the leases to release."""
        self._stop = how
        return self.take_prefetched()
