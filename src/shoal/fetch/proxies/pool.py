"""The proxies of one worker: which are usable, which are benched, and how each performs."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain

from shoal.core.http import Proxy
from shoal.core.proxies import ProxyRules, shares
from shoal.fetch.proxies.health import ProxyFault, ProxyHealth
from shoal.fetch.proxies.strategies import ProxyQueue, Sticky, strategy
from shoal.fetch.singleflight import LruCache

Clock = Callable[[], float]
CountProxy = Callable[[str, str], object]  # called with an outcome, a page or a fault, and a proxy's name
PAGE = "page"
MAX_RECORDS = 100_000
SETTLING = 4.0  # seconds for which a worker's slice is valid; then every worker knows of a change
# No other worker has taken the slice over for this many seconds after that: a worker counts as gone 15 s
# after its note, which is at most 8 s old when a slice is confirmed.
RETAINED = 3.0
RECHECK = 1.0  # seconds to wait for a slice to be confirmed

UP_PERIOD_SECONDS = 60.0  # a host that returned a page through any proxy since then is up
MAX_HOSTS = 10_000

MAX_BLOCKS = 3  # hosts that block a proxy which never gave a page
MAX_STREAKS = 1_000  # of proxies at one host; all of them are published on every exchange
NONE: frozenset[str] = frozenset()


class PerExitRate:
    """Tells when a proxy may send to a host again; without a gap, always."""

    def __init__(self, gap: float, clock: Clock) -> None:
        self.gap, self._clock = gap, clock
        self._last_sent: dict[str, float] = {}  # when a proxy last sent to a host, by both names
        self._settled: dict[str, float] = {}  # when a proxy that another worker may have used is usable
        self._valid_until = float("inf")  # of this worker's slice

    def wait(self, proxy: str, host: str) -> float:
        """Return the seconds until a proxy may send to a host."""
        if not self.gap:
            return 0.0
        last_sent = self._last_sent.get(f"{proxy} {host}", float("-inf"))
        free = max(last_sent + self.gap, self._settled.get(proxy, 0.0))
        now = self._clock()
        # A worker that was delayed may not know that its proxies are another worker's by now.
        is_late = now >= self._valid_until
        return max(RECHECK if is_late else 0.0, free - now)

    def record_request(self, proxy: str, host: str) -> None:
        """Record that a proxy sends to a host now."""
        if not self.gap:
            return
        now = self._clock()
        if len(self._last_sent) >= MAX_RECORDS:
            self._last_sent = {one: at for one, at in self._last_sent.items() if at + self.gap > now}
        self._last_sent[f"{proxy} {host}"] = now

    def confirm(self, read_at: float) -> None:
        """Record that the slice was this worker's when the fleet's state was read."""
        if read_at - self._valid_until >= RETAINED:
            self.update((), list(self._settled))
        self._valid_until = read_at + SETTLING

    def update(self, stay: Iterable[str], new: Iterable[str]) -> None:
        """Hold back new proxies until the workers that had them know of the change."""
        settled = self._clock() + SETTLING + self.gap
        self._settled = {name: self._settled.get(name, 0.0) for name in stay} | dict.fromkeys(new, settled)


class HostProxies:
    """Records through which proxies the hosts that were fetched last have returned pages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_pages: LruCache[float] = LruCache(MAX_HOSTS)  # by host
        self._accepted: LruCache[bool] = LruCache(MAX_RECORDS)  # by proxy and host

    def record_page(self, proxy: str, host: str) -> None:
        """Record a page."""
        self._last_pages.put(host, self._clock())
        self._accepted.put(f"{proxy} {host}", True)

    def has_accepted(self, proxy: str, host: str) -> bool:
        """Tell whether a host has returned a page through this proxy."""
        return self._accepted.get(f"{proxy} {host}") is not None

    def is_up(self, host: str) -> bool:
        """Tell whether a host has recently returned a page through any proxy."""
        last_page = self._last_pages.get(host)
        return last_page is not None and last_page + UP_PERIOD_SECONDS > self._clock()


class ProxyShortage(Enum):
    """Why no proxy can be taken."""

    TOO_SOON = auto()  # each has sent to the host a moment ago
    BUSY = auto()  # those that are left are on trial, and have a request in flight
    BLOCKED = auto()  # the host has blocked all that are left
    BENCHED = auto()  # none is left


class ProxyPool:
    """Picks proxies by the rules, and records the results.

    A unit is what can be benched: a proxy, by its name, or a proxy at one host, by both names.
    """

    def __init__(
        self,
        rules: ProxyRules,
        proxies: Sequence[Proxy],
        *,
        gap: float = 0.0,
        clock: Clock = time.monotonic,
        count: CountProxy | None = None,
    ) -> None:
        """With a gap, each proxy sends to a host at most once per `gap` seconds."""
        self._count = count or (lambda outcome, proxy: None)
        self.rules, self.clock = rules, clock
        self.hosts, self._rate = HostProxies(clock), PerExitRate(gap, clock)
        self._strategy, self._sticky = strategy(rules.strategy), Sticky()
        self._all: dict[str, ProxyHealth] = {}  # by name
        self._queue: ProxyQueue = deque()  # proxies of this worker that are not benched
        self._benched: dict[str, float] = {}  # units, and until when
        self._next_return = float("inf")
        self._streaks: dict[str, int] = {}  # of proxies at one host
        self._unpublished: set[str] = set()  # units that have failed, not yet published to the fleet
        self._condemned: dict[str, ProxyFault] = {}  # units that failed on trial
        self._reasons: dict[str, ProxyFault] = {}  # of the proxies' last failures
        self._place, self._workers = 0, 1
        self._in_flight = 0  # requests in flight through all of them
        self._is_even = rules.strategy == "round_robin"
        self.changed = asyncio.Event()  # a proxy may be usable that was not before
        self.has_failures = asyncio.Event()  # there are failures to publish
        self.replace(proxies)

    def replace(self, proxies: Sequence[Proxy]) -> None:
        """Use these proxies from now on; the records of those that stay are kept."""
        before = {health.proxy.url: health for health in self._all.values()}
        self._all = {proxy.name: before.get(proxy.url) or ProxyHealth(proxy) for proxy in proxies}
        self._rebuild_queue()

    def share(self, place: int, workers: int, *, read_at: float) -> None:
        """Use the slice of worker number `place` of `workers`, by the fleet's state of a moment ago."""
        self._rate.confirm(read_at)
        if (place, workers) != (self._place, self._workers):
            self._place, self._workers = place, workers
            self._rebuild_queue()

    def await_slice(self) -> None:
        """Let no proxy send at its own rate until it is known to be in this worker's slice."""
        self._rate.confirm(float("-inf"))

    def pick(self, host: str, key: str | None, avoid: Collection[str] = NONE) -> ProxyHealth | None:
        """Return the proxy for a request, None if there is none except those to avoid."""
        self._end_benches()
        chooser = self._strategy if key is None else self._sticky
        is_sticky = isinstance(chooser, Sticky)

        def is_usable(one: ProxyHealth) -> bool:
            return self._is_usable(one, host, is_sticky) and one.proxy.name not in avoid

        return chooser.pick(self._queue, is_usable, host if key is None else key)

    def is_free(self, health: ProxyHealth, host: str) -> bool:
        """Tell whether a proxy that was picked before may be used again."""
        self._end_benches()
        return health in self._queue and self._is_usable(health, host, True)

    def shortage(self, host: str) -> ProxyShortage:
        """Return why no proxy could be picked."""
        if not self._queue:
            return ProxyShortage.BENCHED
        is_blocked = all(f"{one.proxy.name} {host}" in self._benched for one in self._queue)
        if is_blocked:
            return ProxyShortage.BLOCKED
        return ProxyShortage.TOO_SOON if self.free_in(host) else ProxyShortage.BUSY

    @property
    def back_in(self) -> float:
        """The seconds until the next benched proxy returns."""
        ends = [until for unit, until in self._benched.items() if " " not in unit]
        return max(0.0, min(ends) - self.clock()) if ends else 0.0

    def wait(self, health: ProxyHealth, host: str) -> float:
        """Return the seconds until a proxy may send to a host."""
        return self._rate.wait(health.proxy.name, host)

    def free_in(self, host: str) -> float:
        """Return the seconds until any proxy may send to a host."""
        return min((self.wait(one, host) for one in self._queue), default=0.0)

    def begin(self, health: ProxyHealth, host: str) -> None:
        """Count a request that is sent."""
        self._rate.record_request(health.proxy.name, host)
        self._in_flight += 1
        health.in_flight += 1
        health.used += 1

    def end(self, health: ProxyHealth) -> None:
        """Count a request that has ended."""
        self._in_flight -= 1
        health.in_flight -= 1
        self.changed.set()

    def record_page(self, health: ProxyHealth, host: str, seconds: float) -> None:
        """Record a page."""
        self._count(PAGE, health.proxy.name)
        health.record_page(seconds, self.clock())
        self.hosts.record_page(health.proxy.name, host)
        if self._streaks:
            self._streaks.pop(f"{health.proxy.name} {host}", None)

    def record_failure(self, health: ProxyHealth, fault: ProxyFault) -> None:
        """Record a failure of a proxy; on trial, one is enough to bench it."""
        self._count(fault, health.proxy.name)
        health.record_failure(fault)
        self._unpublished.add(health.proxy.name)
        self._reasons[health.proxy.name] = fault
        if health.is_on_trial:
            self._condemned[health.proxy.name] = fault
        self.has_failures.set()

    def record_block(self, health: ProxyHealth, host: str) -> None:
        """Record that a host rejected a proxy."""
        unit = f"{health.proxy.name} {host}"
        self._count(ProxyFault.BLOCKED, health.proxy.name)
        health.record_fault(ProxyFault.BLOCKED)
        self._unpublished.add(unit)
        self._streaks[unit] = self._streaks.pop(unit, 0) + 1
        if len(self._streaks) > MAX_STREAKS:
            del self._streaks[next(iter(self._streaks))]
        self.has_failures.set()

    # What is exchanged with the fleet

    def failure_counts(self) -> dict[str, int]:
        """Return the units that have failed, with their consecutive failures."""
        proxies = {name: one.streak for name, one in self._all.items() if one.streak}
        return proxies | self._streaks

    def pop_condemned(self) -> dict[str, ProxyFault]:
        """Return the units to bench whatever other workers report, and clear them."""
        found, self._condemned = self._condemned, {}
        return found

    def reason(self, unit: str) -> ProxyFault:
        """Return why a unit has failed."""
        return ProxyFault.BLOCKED if " " in unit else self._reasons.get(unit, ProxyFault.DEAD)

    def bench(self, units: Mapping[str, float]) -> None:
        """Bench these units for this many seconds."""
        now, is_new = self.clock(), False
        for unit, seconds in units.items():
            is_new |= unit not in self._benched
            self._benched[unit] = now + seconds
            self._next_return = min(self._next_return, now + seconds)
            self._streaks.pop(unit, None)
            if health := self._all.get(unit):
                health.streak = 0
        if is_new:
            self._condemn_blocked()
            self._rebuild_queue()

    def bench_locally(self) -> None:
        """Bench what has failed too often here, where there is no fleet to consult."""
        counts = self.failure_counts()
        failing = {unit for unit, count in counts.items() if count >= self.rules.threshold}
        self.bench(dict.fromkeys(failing | self.pop_condemned().keys(), self.rules.duration.total_seconds()))
        self.mark_published(self.unpublished())

    def mark_published(self, unpublished: Iterable[str]) -> None:
        """Make units usable again whose failures have been published."""
        self._unpublished.difference_update(unpublished)
        self.changed.set()

    def unpublished(self) -> list[str]:
        """Return the units whose failures are not published yet."""
        return list(self._unpublished)

    @property
    def mine(self) -> frozenset[str]:
        """The names of the proxies in this worker's slice, benched ones included."""
        return frozenset(shares(list(self._all), self._place, self._workers))

    def records(self) -> Iterable[ProxyHealth]:
        """Return the records of all proxies."""
        return self._all.values()

    def _condemn_blocked(self) -> None:
        """Bench proxies that several hosts blocked and that never returned a page: the proxy is at fault."""
        hosts = Counter(unit.partition(" ")[0] for unit in self._benched if " " in unit)
        for name, count in hosts.items():
            health = self._all.get(name)
            if health and count >= MAX_BLOCKS and not health.has_worked and name not in self._benched:
                self._condemned[name] = ProxyFault.REFUSED
                self.has_failures.set()

    def _is_usable(self, health: ProxyHealth, host: str, is_sticky: bool) -> bool:
        # A sticky key is not moved to another proxy because its own is busy.
        if health.in_flight and health.is_suspect and not is_sticky:
            return False
        if self._rate.gap and not is_sticky and self.wait(health, host):
            return False
        if self._is_even and not is_sticky and health.in_flight >= self._fair_share():
            return False
        if not self._benched and not self._unpublished:
            return True
        name = health.proxy.name
        unit = f"{name} {host}"
        return name not in self._unpublished and unit not in self._unpublished and unit not in self._benched

    def _fair_share(self) -> int:
        """Return how many requests one may have in flight; else most of them would wait for the slowest."""
        return 2 + 2 * self._in_flight // len(self._queue)

    def _end_benches(self) -> None:
        now = self.clock()
        if now < self._next_return:
            return
        over = [unit for unit, until in self._benched.items() if until <= now]
        for unit in over:
            del self._benched[unit]
            if health := self._all.get(unit):
                health.return_from_bench()
        self._next_return = min(self._benched.values(), default=float("inf"))
        if over:
            self._rebuild_queue()

    def _rebuild_queue(self) -> None:
        mine = shares(list(self._all), self._place, self._workers)
        wanted = {name for name in mine if name not in self._benched}
        stay = [one for one in self._queue if one.proxy.name in wanted and self._all[one.proxy.name] is one]
        known = {one.proxy.name for one in stay}
        new = [self._all[name] for name in mine if name in wanted and name not in known]
        # Each worker starts at a random proxy, so that the first in the list is not the most used.
        self._rate.update((one.proxy.name for one in stay), (one.proxy.name for one in new))
        turn = random.randrange(len(new)) if new else 0
        self._queue = deque(chain(stay, new[turn:], new[:turn]))
        self.changed.set()
