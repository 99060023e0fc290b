"""Which proxy a request uses."""

import random
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice

from shoal.fetch.proxies.health import ProxyHealth
from shoal.fetch.singleflight import LruCache

MAX_COMPARED = 64  # of more proxies than this, a random sample is compared
MAX_COUNTED = 1_000  # of more, the first usable one is picked
MAX_KEYS = 100_000

ProxyQueue = deque[ProxyHealth]
IsUsable = Callable[[ProxyHealth], bool]


class RoundRobin:
    """Each in turn: of the usable ones, the one with the fewest turns that has waited longest."""

    def __init__(self) -> None:
        self._turns = 0  # turns of the last pick, before it was picked

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        found: ProxyHealth | None = None
        for health in islice(queue, MAX_COUNTED):
            if is_usable(health) and (found is None or health.turns < found.turns):
                found = health
                # Nearly always the first has no more turns than the last pick had, and the search ends.
                if found.turns <= self._turns:
                    break
        found = found or next(filter(is_usable, queue), None)
        if found:
            self._turns = found.turns
            queue.remove(found)
            queue.append(found)
        return found


class Random:
    """Any usable one."""

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        return next(filter(is_usable, _sample(queue)), None) or next(filter(is_usable, queue), None)


class LeastUsed:
    """The one with the fewest requests in flight, and of those the one that was picked least often."""

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        return min(_usable_sample(queue, is_usable), key=lambda one: (one.in_flight, one.used), default=None)


class Fastest:
    """The one with the shortest expected wait for a page; each unused one is tried once."""

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        return min(
            _usable_sample(queue, is_usable),
            key=lambda one: (one.seconds or 0.0) * (one.in_flight + 1),
            default=None,
        )


class Sticky:
    """The same for the same key, in every worker; when a proxy is benched, only its own keys move."""

    def __init__(self) -> None:
        self._known: LruCache[ProxyHealth] = LruCache(MAX_KEYS)

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        known = self._known.get(key)
        if known and known in queue and is_usable(known):
            return known
        best = max(filter(is_usable, queue), key=lambda one: _weight(key, one), default=None)
        # A second best is not remembered: the best one may be back in a moment.
        if best and best is max(queue, key=lambda one: _weight(key, one)):
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


def _usable_sample(queue: ProxyQueue, is_usable: IsUsable) -> list[ProxyHealth]:
    if len(queue) <= MAX_COMPARED:
        return [one for one in queue if is_usable(one)]
    few = [one for one in _sample(queue) if is_usable(one)]
    return few or list(islice(filter(is_usable, queue), MAX_COMPARED))


def _sample(queue: ProxyQueue) -> list[ProxyHealth]:
    return random.sample(queue, min(len(queue), MAX_COMPARED))


def _weight(key: str, health: ProxyHealth) -> bytes:
    return blake2b(f"{key}\0{health.proxy.url}".encode(), digest_size=8).digest()
