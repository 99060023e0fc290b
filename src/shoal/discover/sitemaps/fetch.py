"""Fetches sitemaps, and finds those of a host in its robots.txt or under their usual names."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    HttpStatus,
    InvalidUrl,
    ParseFailed,
)
from shoal.core.http import Request, Response
from shoal.core.model import MINUTE, SECOND
from shoal.core.patterns import glob
from shoal.core.retry_policy import RetryPolicy, is_transient
from shoal.core.urls import bare_host, join, origin_of
from shoal.discover.source import Fetch

Sleep = Callable[[float], Awaitable[object]]

RETRIES = RetryPolicy(max_attempts=3, base=2 * SECOND, cap=MINUTE)
_TEMPORARY = (FetchTimeout, ConnectFailed, BrokenAnswer)

MAX_READ = 500 << 10  # bytes
MAX_SITEMAPS = 1_000

_SITEMAP = re.compile(r"^[ \t]*site-?maps?[ \t]*:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


class SitemapFetcher:
    """Fetches files with at least `delay` between two requests."""

    def __init__(self, fetch: Fetch, *, delay: timedelta, timeout: timedelta, sleep: Sleep) -> None:
        self._fetch, self._timeout, self._sleep = fetch, timeout, sleep
        self._delay = delay.total_seconds()
        self._free_at = 0.0

    async def get(self, url: str) -> Response:
        """Return the response if its status is 2xx; raises FetchError."""
        for attempt in range(1, RETRIES.max_attempts):
            try:
                return await self._get_once(url)
            except (HttpStatus, *_TEMPORARY) as error:
                if isinstance(error, HttpStatus) and not is_transient(error.status):
                    raise
            await self._sleep(RETRIES.backoff(attempt, random.random()).total_seconds())
        return await self._get_once(url)

    async def _get_once(self, url: str) -> Response:
        clock = asyncio.get_running_loop().time
        if (wait := self._free_at - clock()) > 0:
            await self._sleep(wait)
        self._free_at = clock() + self._delay
        response = await self._fetch(Request(url=url, timeout=self._timeout))
        if not 200 <= response.status <= 299:
            raise HttpStatus(response.status, message=f"status {response.status}")
        return response


def reason_of(error: FetchError | ParseFailed) -> str:
    """Return why a file could not be read, in the words of the error; of others with its kind."""
    return str(error) if isinstance(error, HttpStatus | ParseFailed) else f"{type(error).__name__}: {error}"


def sitemaps_in(body: bytes, origin: str) -> list[str]:
    """Return the sitemaps that a robots.txt lists, as unique canonical URLs."""
    text = body[:MAX_READ].decode("utf-8", errors="replace").replace("\r", "\n")
    found: dict[str, None] = {}
    for named in _SITEMAP.findall(text)[:MAX_SITEMAPS]:
        with suppress(InvalidUrl):
            found[join(f"{origin}/", named)] = None
    return list(found)


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
