"""Which proxies hosts have accepted."""

from shoal.fetch.proxies.per_exit_rate import Clock
from shoal.fetch.singleflight import LruCache

UP_PERIOD_SECONDS = 60.0  # a host that returned a page through any proxy since then is up
MAX_HOSTS = 10_000


class _HostRecord:
    __slots__ = ("proxies", "since")

    def __init__(self) -> None:
        self.proxies: set[str] = set()
        self.since = float("-inf")  # when the last page arrived


class HostProxies:
    """Records results of the hosts that were fetched last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: LruCache[_HostRecord] = LruCache(MAX_HOSTS)

    def record_page(self, proxy: str, host: str) -> None:
        """Record a page."""
        known = self._known.get(host) or self._known.put(host, _HostRecord())
        known.since = self._clock()
        known.proxies.add(proxy)

    def has_accepted(self, proxy: str, host: str) -> bool:
        """Tell whether a host has returned a page through this proxy."""
        known = self._known.get(host)
        return known is not None and proxy in known.proxies

    def is_up(self, host: str) -> bool:
        """Tell whether a host has recently returned a page through any proxy."""
        known = self._known.get(host)
        return known is not None and known.since + UP_PERIOD_SECONDS > self._clock()
