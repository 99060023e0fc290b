"""By which proxies hosts have given pages."""

from shoal.fetch.proxies.pace import Clock
from shoal.fetch.shared import Shelf

LATELY = 60.0  # seconds; a host that gave a page by any proxy since then is well
MOST_HOSTS = 10_000


class _Host:
    __slots__ = ("proxies", "since")

    def __init__(self) -> None:
        self.proxies: set[str] = set()
        self.since = float("-inf")  # when the last page came


class Hosts:
    """Remembers the hosts that were asked last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: Shelf[_Host] = Shelf(MOST_HOSTS)

    def served(self, proxy: str, host: str) -> None:
        """Remember a page."""
        known = self._known.get(host) or self._known.put(host, _Host())
        known.since = self._clock()
        known.proxies.add(proxy)

    def is_welcome(self, proxy: str, host: str) -> bool:
        """Tell whether a host has given a page by this proxy."""
        known = self._known.get(host)
        return known is not None and proxy in known.proxies

    def is_well(self, host: str) -> bool:
        """Tell whether a host has lately given a page by any proxy."""
        known = self._known.get(host)
        return known is not None and known.since + LATELY > self._clock()
