"""The proxies of one worker: which may be taken, which are benched, and what each has done."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain

from shoal.core.exchange import Way
from shoal.core.ways import ProxyRules, shares
from shoal.fetch.proxies.hosts import Hosts
from shoal.fetch.proxies.pace import Clock, Pace
from shoal.fetch.proxies.standing import Fault, Standing
from shoal.fetch.proxies.strategies import Line, Sticky, strategy

MOST_BLOCKS = 3  # hosts that block a proxy which never gave a page
MOST_STREAKS = 1_000  # of proxies at one host; the fleet is told all of them again and again
NOBODY: frozenset[str] = frozenset()


class Shortage(Enum):
    """Why no proxy can be taken."""

    TOO_SOON = auto()  # each has asked the host a moment ago
    BUSY = auto()  # those that are left are on trial, and have a request in hand
    BLOCKED = auto()  # the host has blocked all that are left
    BENCHED = auto()  # none is left


class Pool:
    """Hands out proxies by the rules, and is told what became of it.

    A unit is what can be benched: a proxy, by its name, or a proxy at one host, by both names.
    """

    def __init__(
        self, rules: ProxyRules, ways: Sequence[Way], *, gap: float = 0.0, clock: Clock = time.monotonic
    ) -> None:
        """With a gap, each proxy asks a host no more often than once in so many seconds."""
        self.rules, self._clock = rules, clock
        self.hosts, self._pace = Hosts(clock), Pace(gap, clock)
        self._strategy, self._sticky = strategy(rules.strategy), Sticky()
        self._all: dict[str, Standing] = {}  # by name
        self._line: Line = deque()  # of this worker's, and not benched
        self._benched: dict[str, float] = {}  # units, and until when
        self._next_return = float("inf")
        self._streaks: dict[str, int] = {}  # of proxies at one host
        self._held: set[str] = set()  # units that have failed, and the fleet has not been told yet
        self._condemned: dict[str, Fault] = {}  # units that failed on trial
        self._reasons: dict[str, Fault] = {}  # of the last failures of proxies
        self._place, self._workers = 0, 1
        self._in_hand = 0  # requests by all of them
        self._is_even = rules.strategy == "round_robin"
        self.changed = asyncio.Event()  # something may be taken that could not be before
        self.troubled = asyncio.Event()  # the fleet should be told
        self.replace(ways)

    def replace(self, ways: Sequence[Way]) -> None:
        """Take these proxies from now on; what is known of those that stay is kept."""
        before = {standing.way.url: standing for standing in self._all.values()}
        self._all = {way.name: before.get(way.url) or Standing(way) for way in ways}
        self._line_up()

    def share(self, place: int, workers: int) -> None:
        """Take the slice of the worker in this place among so many."""
        if (place, workers) != (self._place, self._workers):
            self._place, self._workers = place, workers
            self._line_up()

    def pick(self, host: str, key: str | None, avoid: Collection[str] = NOBODY) -> Standing | None:
        """Return the proxy that a request is to take, None if there is none but those to avoid."""
        self._bring_back()
        chooser = self._strategy if key is None else self._sticky
        is_sticky = isinstance(chooser, Sticky)

        def may(one: Standing) -> bool:
            return self._may(one, host, is_sticky) and one.way.name not in avoid

        return chooser.pick(self._line, may, host if key is None else key)

    def is_free(self, standing: Standing, host: str) -> bool:
        """Tell whether a proxy that was taken before may be taken again."""
        self._bring_back()
        return standing in self._line and self._may(standing, host, True)

    def shortage(self, host: str) -> Shortage:
        """Say why no proxy could be taken."""
        if not self._line:
            return Shortage.BENCHED
        is_blocked = all(f"{one.way.name} {host}" in self._benched for one in self._line)
        if is_blocked:
            return Shortage.BLOCKED
        return Shortage.TOO_SOON if self.free_in(host) else Shortage.BUSY

    @property
    def back_in(self) -> float:
        """How many seconds it takes until a benched proxy comes back."""
        ends = [until for unit, until in self._benched.items() if " " not in unit]
        return max(0.0, min(ends) - self._clock()) if ends else 0.0

    def wait(self, standing: Standing, host: str) -> float:
        """Return how many seconds it takes until a proxy may ask a host."""
        return self._pace.wait(standing.way.name, host)

    def free_in(self, host: str) -> float:
        """Return how many seconds it takes until some proxy may ask a host."""
        return min((self.wait(one, host) for one in self._line), default=0.0)

    def begin(self, standing: Standing, host: str) -> None:
        """Count a request that goes out."""
        self._pace.asked(standing.way.name, host)
        self._in_hand += 1
        standing.in_hand += 1
        standing.used += 1
        standing.turns += 1

    def end(self, standing: Standing) -> None:
        """Count a request that has come to its end."""
        self._in_hand -= 1
        standing.in_hand -= 1
        self.changed.set()

    def served(self, standing: Standing, host: str, seconds: float) -> None:
        """Remember a page."""
        standing.served(seconds, self._clock())
        self.hosts.served(standing.way.name, host)
        if self._streaks:
            self._streaks.pop(f"{standing.way.name} {host}", None)

    def failed(self, standing: Standing, fault: Fault) -> None:
        """Remember a failure of a proxy; on trial it is one too many."""
        standing.failed(fault)
        self._held.add(standing.way.name)
        self._reasons[standing.way.name] = fault
        if standing.is_on_trial:
            self._condemned[standing.way.name] = fault
        self.troubled.set()

    def blocked(self, standing: Standing, host: str) -> None:
        """Remember that a host does not want to see a proxy."""
        unit = f"{standing.way.name} {host}"
        standing.note(Fault.BLOCKED)
        self._held.add(unit)
        self._streaks[unit] = self._streaks.pop(unit, 0) + 1
        if len(self._streaks) > MOST_STREAKS:
            del self._streaks[next(iter(self._streaks))]
        self.troubled.set()

    # What the fleet is told, and hears

    def trouble(self) -> dict[str, int]:
        """Return the units that have failed, and how often in a row."""
        proxies = {name: one.streak for name, one in self._all.items() if one.streak}
        return proxies | self._streaks

    def condemned(self) -> dict[str, Fault]:
        """Return the units that are to be benched whatever others say, and forget them."""
        found, self._condemned = self._condemned, {}
        return found

    def reason(self, unit: str) -> Fault:
        """Say why a unit has failed."""
        return Fault.BLOCKED if " " in unit else self._reasons.get(unit, Fault.DEAD)

    def bench(self, units: Mapping[str, float]) -> None:
        """Leave these out for so many seconds."""
        now, is_new = self._clock(), False
        for unit, seconds in units.items():
            is_new |= unit not in self._benched
            self._benched[unit] = now + seconds
            self._next_return = min(self._next_return, now + seconds)
            self._streaks.pop(unit, None)
            if standing := self._all.get(unit):
                standing.streak = 0
        if is_new:
            self._condemn_useless()
            self._line_up()

    def judge_alone(self) -> None:
        """Bench what has failed too often here, where there is no fleet to ask."""
        counts = self.trouble()
        guilty = {unit for unit, count in counts.items() if count >= self.rules.threshold}
        self.bench(dict.fromkeys(guilty | self.condemned().keys(), self.rules.duration.total_seconds()))
        self.told(self.held())

    def told(self, held: Iterable[str]) -> None:
        """Let those units be taken again whose failures the fleet knows of now."""
        self._held.difference_update(held)
        self.changed.set()

    def held(self) -> list[str]:
        """Return the units that wait for the fleet to be told."""
        return list(self._held)

    def standings(self) -> Iterable[Standing]:
        """Return all that is known."""
        return self._all.values()

    def _condemn_useless(self) -> None:
        """Give up proxies that several hosts have blocked and that never gave a page: it is not the hosts."""
        hosts = Counter(unit.partition(" ")[0] for unit in self._benched if " " in unit)
        for name, count in hosts.items():
            standing = self._all.get(name)
            if standing and count >= MOST_BLOCKS and not standing.has_worked and name not in self._benched:
                self._condemned[name] = Fault.REFUSED
                self.troubled.set()

    def _may(self, standing: Standing, host: str, is_sticky: bool) -> bool:
        # Who is to see the same face always is not sent another one because the first is busy.
        if standing.in_hand and standing.is_in_doubt and not is_sticky:
            return False
        if self._pace.gap and not is_sticky and self.wait(standing, host):
            return False
        if self._is_even and not is_sticky and standing.in_hand >= self._fair_share():
            return False
        if not self._benched and not self._held:
            return True
        name = standing.way.name
        unit = f"{name} {host}"
        return name not in self._held and unit not in self._held and unit not in self._benched

    def _fair_share(self) -> int:
        """Return how many requests one may have in hand; else the first to answer would be given them all."""
        return 2 + 2 * self._in_hand // len(self._line)

    def _bring_back(self) -> None:
        now = self._clock()
        if now < self._next_return:
            return
        over = [unit for unit, until in self._benched.items() if until <= now]
        for unit in over:
            del self._benched[unit]
            if standing := self._all.get(unit):
                standing.returned()
        self._next_return = min(self._benched.values(), default=float("inf"))
        if over:
            self._line_up()

    def _line_up(self) -> None:
        mine = shares(list(self._all), self._place, self._workers)
        wanted = {name for name in mine if name not in self._benched}
        stay = [one for one in self._line if one.way.name in wanted and self._all[one.way.name] is one]
        known = {one.way.name for one in stay}
        new = [self._all[name] for name in mine if name in wanted and name not in known]
        # Each worker begins its turns somewhere else, so that the first in the list is not the most used.
        self._pace.line_up((one.way.name for one in stay), (one.way.name for one in new))
        fewest = min((one.turns for one in stay), default=0)
        for one in new:
            one.turns = max(one.turns, fewest)
        turn = random.randrange(len(new)) if new else 0
        self._line = deque(chain(stay, new[turn:], new[:turn]))
        self.changed.set()
