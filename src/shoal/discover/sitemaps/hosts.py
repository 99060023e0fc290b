"""The hosts that a sitemap may list: its own, those whose robots.txt names it, and allowed ones."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from shoal.core.errors import FetchError
from shoal.core.patterns import glob
from shoal.core.urls import bare_host, origin_of
from shoal.discover.sitemaps.fetch import SitemapFetcher
from shoal.discover.sitemaps.robots import sitemaps_in


class SitemapHosts:
    """Fetches the robots.txt of each host once, for at most `max_hosts` hosts."""

    def __init__(self, fetcher: SitemapFetcher, allowed: Collection[str], max_hosts: int) -> None:
        self._fetcher, self._max_hosts = fetcher, max_hosts
        self._allowed = [glob(host.lower()) for host in allowed]
        self._named: dict[str, frozenset[str]] = {}

    async def sitemaps_of(self, url: str) -> list[str]:
        """Return the sitemaps that the robots.txt of a URL's host names; raises FetchError."""
        origin = origin_of(url)
        response = await self._fetcher.get(f"{origin}/robots.txt")
        found = sitemaps_in(response.body, origin)
        self._named[bare_host(url)] = frozenset(found)
        return found

    async def allow(self, url: str, chain: Sequence[str]) -> bool:
        """Tell whether a sitemap may list a URL of another host; `chain` is the sitemap and its parents."""
        host = bare_host(url)
        if any(matches(host) for matches in self._allowed):
            return True
        if host not in self._named and len(self._named) < self._max_hosts:
            self._named[host] = frozenset()
            with suppress(FetchError):
                await self.sitemaps_of(url)
        return not self._named.get(host, frozenset()).isdisjoint([url, *chain])
