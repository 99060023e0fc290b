"""Which proxy a request uses."""

import random
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice
from typing import Any

from shoal.fetch.proxies.health import ProxyHealth
from shoal.fetch.singleflight import LruCache

MAX_COMPARED = 64  # of more proxies than this, a random sample is compared
MAX_KEYS = 100_000

ProxyQueue = deque[ProxyHealth]
IsUsable = Callable[[ProxyHealth], bool]


class RoundRobin:
    """Each in turn: of the usable ones, the one that has waited longest."""

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        found = next(filter(is_usable, queue), None)
        if found:
            queue.remove(found)
            queue.append(found)
        return found


class Lowest:
    """The one with the lowest rank."""

    def __init__(self, rank: Callable[[ProxyHealth], Any]) -> None:
        self._rank = rank

    def pick(self, queue: ProxyQueue, is_usable: IsUsable, key: str) -> ProxyHealth | None:
        few = queue if len(queue) <= MAX_COMPARED else random.sample(queue, MAX_COMPARED)
        usable = [one for one in few if is_usable(one)]
        return min(usable or islice(filter(is_usable, queue), MAX_COMPARED), key=self._rank, default=None)


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


Strategy = RoundRobin | Lowest | Sticky


def strategy(name: str) -> Strategy:
    """Return the strategy of this name."""
    match name:
        case "random":
            return Lowest(lambda one: random.random())
        case "least_used":
            return Lowest(lambda one: (one.in_flight, one.used))
        case "fastest":  # the shortest expected wait for a page; each unused one is tried once
            return Lowest(lambda one: (one.seconds or 0.0) * (one.in_flight + 1))
        case "sticky":
            return Sticky()
        case _:
            return RoundRobin()


def _weight(key: str, health: ProxyHealth) -> bytes:
    return blake2b(f"{key}\0{health.proxy.url}".encode(), digest_size=8).digest()
