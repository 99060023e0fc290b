"""Which of several proxies a request takes."""

import random
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice

from shoal.fetch.proxies.standing import Standing
from shoal.fetch.shared import Shelf

MOST_COMPARED = 64  # of more proxies than this, a random part is compared
MOST_COUNTED = 1_000  # of more, the first that may be taken has its turn
MOST_KEYS = 100_000

Line = deque[Standing]
May = Callable[[Standing], bool]


class RoundRobin:
    """Each in its turn: of those that may be taken, the one with the fewest turns, which waited longest."""

    def __init__(self) -> None:
        self._turns = 0  # of the one that was taken last, before it was

    def pick(self, line: Line, may: May, key: str) -> Standing | None:
        found: Standing | None = None
        for standing in islice(line, MOST_COUNTED):
            if may(standing) and (found is None or standing.turns < found.turns):
                found = standing
                # Nearly always the first has no more turns than the last one had, and the search is over.
                if found.turns <= self._turns:
                    break
        found = found or next(filter(may, line), None)
        if found:
            self._turns = found.turns
            line.remove(found)
            line.append(found)
        return found


class Random:
    """Any of them."""

    def pick(self, line: Line, may: May, key: str) -> Standing | None:
        return next(filter(may, _mixed(line)), None) or next(filter(may, line), None)


class LeastUsed:
    """The one that has the fewest requests in hand, and of those the one that was taken least often."""

    def pick(self, line: Line, may: May, key: str) -> Standing | None:
        return min(_some(line, may), key=lambda one: (one.in_hand, one.used), default=None)


class Fastest:
    """The one by which a page is likely to come first; each that was never taken is tried once."""

    def pick(self, line: Line, may: May, key: str) -> Standing | None:
        return min(_some(line, may), key=lambda one: (one.seconds or 0.0) * (one.in_hand + 1), default=None)


class Sticky:
    """The same for the same key, in every worker; when one is benched, only its own keys move."""

    def __init__(self) -> None:
        self._known: Shelf[Standing] = Shelf(MOST_KEYS)

    def pick(self, line: Line, may: May, key: str) -> Standing | None:
        known = self._known.get(key)
        if known and known in line and may(known):
            return known
        best = max(filter(may, line), key=lambda one: _weight(key, one), default=None)
        # What is second best for now is not remembered: the best one may be back in a moment.
        if best and best is max(line, key=lambda one: _weight(key, one)):
            self._known.put(key, best)
        return best


Strategy = RoundRobin | Random | LeastUsed | Fastest | Sticky
_KINDS: dict[str, type[Strategy]] = {
    "round_robin": RoundRobin,
    "random": Random,
    "least_used": LeastUsed,
    "fastest": Fastest,
    "sticky": Sticky,
}


def strategy(name: str) -> Strategy:
    """Return the strategy of this name."""
    return _KINDS[name]()


def _some(line: Line, may: May) -> list[Standing]:
    if len(line) <= MOST_COMPARED:
        return [one for one in line if may(one)]
    few = [one for one in _mixed(line) if may(one)]
    return few or list(islice(filter(may, line), MOST_COMPARED))


def _mixed(line: Line) -> list[Standing]:
    return random.sample(line, min(len(line), MOST_COMPARED))


def _weight(key: str, standing: Standing) -> bytes:
    return blake2b(f"{key}\0{standing.way.url}".encode(), digest_size=8).digest()
