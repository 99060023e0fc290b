"""For which hosts a sitemap may speak: its own, those whose robots.txt names it, those that are allowed."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from shoal.core.errors import FetchError
from shoal.core.patterns import glob
from shoal.discover.sitemap_fetch import Getter
from shoal.discover.sitemap_robots import origin_of, sitemaps_in


class Hosts:
    """Asks each host once what it says in its robots.txt, and only so many of them."""

    def __init__(self, getter: Getter, allowed: Collection[str], most: int) -> None:
        self._getter, self._most = getter, most
        self._allowed = [glob(host.lower()) for host in allowed]
        self._named: dict[str, frozenset[str]] = {}

    async def sitemaps_of(self, url: str) -> list[str]:
        """Return the sitemaps that the robots.txt of a URL's host names; raises FetchError."""
        origin = origin_of(url)
        response = await self._getter.get(f"{origin}/robots.txt")
        found = sitemaps_in(response.body, origin)
        self._named[bare(url)] = frozenset(found)
        return found

    async def allow(self, url: str, line: Sequence[str]) -> bool:
        """Tell whether a sitemap may name a URL of another host; `line` holds it and those that led to it."""
        host = bare(url)
        if any(matches(host) for matches in self._allowed):
            return True
        if host not in self._named and len(self._named) < self._most:
            self._named[host] = frozenset()
            with suppress(FetchError):
                await self.sitemaps_of(url)
        return not self._named.get(host, frozenset()).isdisjoint([url, *line])


def bare(url: str) -> str:
    """Return the host of a canonical URL; example.com and www.example.com are taken for one."""
    return url.split("/", 3)[2].removeprefix("www.")
