"""When a worker claims again after a claim that found nothing: thousands of them must not come all at once.

The store tells every worker when the next host is free. If all came then, one would get its tasks and the
others nothing. So the worker that served a host last comes on time for it, and the others, once they have
come in vain some times, come later by a random time.

Only decisions: times are the worker's clock in seconds, and passed in.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from heapq import heappop, heappush
from typing import NamedTuple

from shoal.core.model import Grant, Lease
from shoal.worker.prefetch import host_of

POLL_INTERVAL_SECONDS = 1.0  # other workers and producers may add tasks at any time
# A worker that has long found nothing polls less often each time, up to this. The polls of thousands of them
# would otherwise be most of the store's work. One worker of a pool finds new tasks soon, and the others rest.
MAX_POLL_INTERVAL_SECONDS, MAX_RESTING_INTERVAL_SECONDS = 2.0, 30.0
POLL_GROWTH = 1.5
MIN_POLL_INTERVAL_SECONDS = 0.02  # an idle worker waits for the end of the run, which may be near
MIN_WAIT = 0.001  # seconds
MAX_GROWTHS = 100  # of the poll interval; enough to exceed any maximum
FULL_INTERVAL_AFTER = 6  # polls: from here on the interval is POLL_INTERVAL_SECONDS, and grows
POLL_JITTER = 0.05  # of such an interval: workers that were started together must not poll all at once
CLAIM_JITTER = 0.05  # seconds
# A worker that came in vain this often in a row for hosts that others served is one of too many. From then on
# it comes later by a random time that doubles with each defeat: about as long as it has lost, because it may
# be needed again. A victory takes some of the doublings back.
MAX_DEFEATS, DEFEAT_GROWTH, VICTORY, MAX_GROWN = 4, 2.0, 4, 12
# One that holds no lease learns it sooner. Thousands of them may start together, and come in vain for every
# host until they have learned it: it comes later by up to the gap, and by three times as much each time.
MAX_IDLE_DEFEATS, IDLE_DEFEAT_GROWTH, IDLE_VICTORY = 1, 3.0, 2
# A settlement may make tasks claimable. As long as the claims that follow settlements find nothing, they wait
# for more of them: twice as long each time, but only for a fraction of the gap.
MIN_EARLY_WAIT, MAX_EARLY_WAIT, MAX_EARLY_POWER = 0.01, 0.25, 6  # seconds
EARLY_SHARE = 0.25  # of the gap
EARLY = 0.002  # seconds by which a timer may fire too early
SAME_TURN = 0.005  # seconds between turns that one claim serves
MISSED = 0.05  # seconds after which a worker that cannot claim leaves a turn to others


class NextPoll(NamedTuple):
    """How long a worker waits after a claim that found nothing, in seconds."""

    wait: float  # unless something happens
    yield_for: float = 0.0  # before that, whatever happens


class Defeats:
    """Counts claims in a row that came for hosts of others and found nothing."""

    def __init__(self, patience: int, growth: float, forgiven: int) -> None:
        self._patience, self._growth, self._forgiven = patience, growth, forgiven
        self._count = self._grown = 0

    @property
    def factor(self) -> float:
        """By how much the time has grown by which such claims come later; 0 if they come on time."""
        return self._growth**self._grown if self._count > self._patience else 0.0

    def record(self) -> None:
        """Record such a claim."""
        self._count += 1
        self._grown = min(self._grown + (self._count > self._patience), MAX_GROWN)

    def record_victory(self) -> None:
        """Record that such a claim found something."""
        self._count, self._grown = 0, max(0, self._grown - self._forgiven)

    def clear(self) -> None:
        """Forget all of them."""
        self._count = self._grown = 0


class Polling:
    """Decides for one worker when to claim again."""

    def __init__(
        self,
        gap: timedelta,
        *,
        max_interval: float,
        uniform: Callable[[float, float], float],
        has_turns: bool = True,
    ) -> None:
        """Without turns no worker comes before the others: each has exits of its own, and all are needed."""
        self._max_interval, self._uniform, self._has_turns = max_interval, uniform, has_turns
        self._may_rest = max_interval > MAX_POLL_INTERVAL_SECONDS
        self._turns: list[float] = []  # a heap: when the hosts are free again that this worker served last
        self._planned: float | None = None  # when to claim again, unless something happens
        self._awaits_others = False  # that claim is for a host that another worker may have served last
        self._defeats = Defeats(MAX_DEFEATS, DEFEAT_GROWTH, VICTORY)  # while leases were held
        self._idle_defeats = Defeats(MAX_IDLE_DEFEATS, IDLE_DEFEAT_GROWTH, IDLE_VICTORY)  # while none was
        self._early_misses = 0  # claims in a row that came before they were planned, and found nothing
        self._idle_polls = 0  # polls in a row that found nothing while no lease was held
        self.set_gap(gap)

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._host_gap = gap.total_seconds()
        self._gap = self._host_gap if self._has_turns else 0.0
        self._turns.clear()

    @property
    def is_resting(self) -> bool:
        """Whether the worker has long found nothing to do, and polls rarely."""
        return self._idle_polls > FULL_INTERVAL_AFTER

    def rest(self) -> None:
        """Poll as rarely as a worker that has found nothing for minutes."""
        self._idle_polls = MAX_GROWTHS

    def poll_soon(self) -> None:
        """Forget that nothing was found: there is, or may be, something to do."""
        self._idle_polls = 0
        self._defeats.clear()
        self._idle_defeats.clear()
        self._planned, self._awaits_others = None, False

    def on_leases(self, leases: Iterable[Lease], claimed_at: float, sent_at: float) -> None:
        """Record a claim that found something; the durations of its leases count from `claimed_at`."""
        if self._is_early(sent_at):
            self._early_misses = 0
        elif self._awaits_others:
            self._defeats.record_victory()
            self._idle_defeats.record_victory()
        self._idle_polls = 0
        self._planned, self._awaits_others = None, False
        self._forget_turns(sent_at + SAME_TURN)
        if self._gap:
            for start_in in _last_starts(leases):
                heappush(self._turns, claimed_at + start_in + self._gap)

    def on_nothing(
        self, grant: Grant, sent_at: float, now: float, *, is_holding: bool, has_prefetched: bool
    ) -> NextPoll:
        """Record a claim that found nothing, and return when to claim again."""
        if self._is_early(sent_at):
            self._early_misses += 1
        elif self._awaits_others and (self._gap or not is_holding):
            (self._defeats if is_holding else self._idle_defeats).record()
        self._idle_polls = 0 if is_holding else self._idle_polls + 1
        self._forget_turns(sent_at)
        wait = next_poll_delay(grant, self._idle_polls, self._max_interval)
        self._awaits_others = grant.next_due is not None and wait >= grant.next_due.total_seconds()
        if self._awaits_others:
            wait += self._lateness(is_holding=is_holding)
        elif self.is_resting:
            wait *= self._uniform(1 - POLL_JITTER, 1)
        if self._turns and self._turns[0] <= now + wait:
            wait = max(MIN_WAIT, self._turns[0] - now)
            self._awaits_others = False
        self._planned = now + wait
        if has_prefetched and self._awaits_others:
            # It has something to start, so others may go first.
            return NextPoll(wait, self._uniform(0, CLAIM_JITTER))
        pause = min(self._early_wait(), wait) if is_holding else 0.0
        return NextPoll(wait - pause, pause)

    def take_missed_turns(self, now: float) -> bool:
        """Forget the hosts that have been free for a while, and return whether there were any.

        For a worker that holds too much to claim: it does not come for them, and so others have to.
        """
        has_missed = bool(self._turns) and self._turns[0] + MISSED <= now
        self._forget_turns(now - MISSED)
        return has_missed

    def until_missed(self, now: float) -> float:
        """Return the seconds until the worker should look at its turns again, although it cannot claim."""
        if not self._turns:
            return POLL_INTERVAL_SECONDS
        return min(max(MIN_WAIT, self._turns[0] + MISSED - now), POLL_INTERVAL_SECONDS)

    def _is_early(self, sent_at: float) -> bool:
        return self._planned is not None and sent_at < self._planned - EARLY

    def _forget_turns(self, before: float) -> None:
        while self._turns and self._turns[0] <= before:
            heappop(self._turns)

    def _lateness(self, *, is_holding: bool) -> float:
        if not self._has_turns:
            return self._uniform(0, min(CLAIM_JITTER, EARLY_SHARE * self._host_gap))
        if is_holding:
            # Without a gap it may be the only worker that can handle what it waits for.
            grown = MIN_POLL_INTERVAL_SECONDS * self._defeats.factor if self._gap else 0.0
            return self._uniform(0, min(grown, POLL_INTERVAL_SECONDS))
        first = max(MIN_POLL_INTERVAL_SECONDS, min(self._gap, POLL_INTERVAL_SECONDS))
        if not self._idle_defeats.factor and self._may_rest:
            # Another worker of the pool comes on time; hundreds that have just started must not come with it.
            return self._uniform(0, EARLY_SHARE * first)
        latest = min(first * self._idle_defeats.factor / IDLE_DEFEAT_GROWTH, self._max_interval)
        return self._uniform(latest / 2, latest)

    def _early_wait(self) -> float:
        if not self._early_misses:
            return 0.0
        wait = MIN_EARLY_WAIT * 2.0 ** min(self._early_misses, MAX_EARLY_POWER)
        return min(wait, MAX_EARLY_WAIT, EARLY_SHARE * self._gap)


def _last_starts(leases: Iterable[Lease]) -> set[float]:
    """Return when the hosts of these leases get their last request; those claimed together at one moment."""
    last: dict[str, float] = {}
    for lease in leases:
        if host := host_of(lease):
            last[host] = max(last.get(host, 0.0), lease.start_in.total_seconds())
    return set(last.values())


def next_poll_delay(grant: Grant, idle_polls: int, most: float = MAX_POLL_INTERVAL_SECONDS) -> float:
    """Return the seconds to wait after a claim that found nothing; `idle_polls` of them in a row, if idle."""
    interval = min(_poll_interval(idle_polls), most)
    if grant.next_due is not None and grant.next_due.total_seconds() < max(interval, POLL_INTERVAL_SECONDS):
        return max(grant.next_due.total_seconds(), MIN_WAIT)
    return interval


def _poll_interval(idle_polls: int) -> float:
    if not idle_polls:
        return POLL_INTERVAL_SECONDS
    if idle_polls <= FULL_INTERVAL_AFTER:
        return min(MIN_POLL_INTERVAL_SECONDS * 2.0**idle_polls, POLL_INTERVAL_SECONDS)
    growth = POLL_GROWTH ** min(idle_polls - FULL_INTERVAL_AFTER, MAX_GROWTHS)
    return POLL_INTERVAL_SECONDS * growth
