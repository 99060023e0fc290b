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
from shoal.worker.polling import NextClaim, Polling
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
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.slots = ConcurrencySlots(concurrency, max_in_flight)
        self._given_concurrency = concurrency
        self._prefetch = PrefetchBuffer(gap, starts_early=starts_early)
        self._lease, self.gap, self._rest_until = lease.total_seconds(), gap, 0.0
        self._batch, self._share, self._uniform = batch, share, uniform
        self._numbers: dict[LeaseKey, int] = {}  # of every lease that it holds
        self._started: dict[int, Lease] = {}  # not finished yet, by number
        self._missed = set[LeaseKey]()  # started tasks that end without a request for their page
        self._suspects = suspects or {}
        self._limits: dict[int, int] = {}  # of the suspects that it holds, by number
        self._ended = set[int]()  # tasks that have ended and are not settled yet; only if there are suspects
        self.polling = polling or Polling(gap, uniform=uniform)
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
                start = start._replace(may_be_late=True)  # it waits for others to end
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
            self._rest_until = now + self._uniform(shortest, longest)

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
        self.polling.set_pauses(has_pauses=pause is not None)
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
