"""Fetches the robots.txt of each origin, once a day for the whole fleet; its callers enforce it: `check`.

The setting is `robots`, in other tools robotstxt_obey.
"""

import asyncio
import time
from contextlib import suppress
from copy import copy
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shoal.core.errors import (
    ConnectFailed,
    DnsFailed,
    FetchError,
    OutOfScope,
    PrivateAddress,
    QueueError,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
)
from shoal.core.http import Request
from shoal.core.model import MINUTE, SECOND, ZERO
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.fetch.cache.store import CacheStore, StoredEntry
from shoal.fetch.contract import Fetcher
from shoal.fetch.dns import Clock
from shoal.fetch.robots.rules import RobotsRules, product_of, relevant
from shoal.fetch.singleflight import LruCache, SingleFlight

LIFETIME = timedelta(hours=24)
FAILURE_LIFETIME = MINUTE
# Long enough for the tasks that wait for it together, and over before any of them is tried again.
CONNECT_FAILURE_LIFETIME = SECOND
REQUEST_TIMEOUT = MINUTE / 2
MAX_REDIRECTS = 5
MAX_TEXT = 32 << 20  # characters of all cached files
MAX_PARSED = 1 << 20  # characters of those cached in parsed form, which needs up to 80 times the memory
THREAD_THRESHOLD = 64 << 10  # characters; longer files are parsed in a thread
FIXED_COST = 256  # of one cached file, in characters


class _CachedRules(NamedTuple):
    lines: str
    failure: FetchError | None
    until: float


class _RobotsResponse(msgspec.Struct, frozen=True, array_like=True):
    """The robots.txt of an origin as the workers share it."""

    origin: str
    lines: str
    failure: str | None


_decoder = msgspec.msgpack.Decoder(_RobotsResponse)


class Robots:
    """Knows the robots.txt rules of every origin for our user agent.

    With a store, all workers that use it share the rules. A store that fails costs a fetch.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        user_agent: str,
        *,
        store: CacheStore | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._fetcher, self._product, self._clock = fetcher, product_of(user_agent), clock
        self._store = store
        self._cached: LruCache[_CachedRules] = LruCache(MAX_TEXT)
        self._parsed: LruCache[RobotsRules] = LruCache(MAX_PARSED)
        self._fetches: SingleFlight[_CachedRules] = SingleFlight()

    async def check(self, url: str) -> RobotsRules:
        """Return the rules of a URL's origin; raises RobotsDenied if they forbid it, or as `rules` does."""
        href = canonical(url)
        rules = await self._rules_of(_origin(href))
        if not rules.allows(href):
            raise RobotsDenied(f"robots.txt does not allow {shorten(href)}")
        return rules

    async def rules(self, url: str) -> RobotsRules:
        """Return the rules of a URL's origin.

        Raises RobotsUnavailable while the file cannot be fetched, DnsFailed while the host has no address,
        ConnectFailed while it cannot be connected to, OutOfScope if the origin is off limits.
        """
        return await self._rules_of(_origin(canonical(url)))

    async def recall(self, url: str) -> bool:
        """Tell whether the rules of a URL's origin are known without a request."""
        origin = _origin(canonical(url))
        if self._is_known(origin):
            return True
        cached = await self._recall(origin)
        if cached:
            self._cache(origin, cached)
        return cached is not None

    def is_fetching(self, url: str) -> bool:
        """Tell whether the robots.txt of a URL's origin is being fetched now."""
        return _origin(canonical(url)) in self._fetches

    def crawl_delay(self, url: str) -> timedelta | None:
        """Return the crawl delay of a URL's origin; None if it sets none or is not fetched yet."""
        cached = self._cached.get(_origin(canonical(url)))
        return self._rules(cached.lines).crawl_delay if cached else None

    async def close(self) -> None:
        """Cancel fetches, and finish pending writes."""
        await self._fetches.close()
        if self._store:
            await self._store.close()

    async def _rules_of(self, origin: str) -> RobotsRules:
        cached = self._cached.get(origin)
        if cached is None or not self._is_known(origin):
            cached = await self._fetches.do(origin, lambda: self._fetch_rules(origin))
        if cached.failure:
            raise copy(cached.failure)
        return self._rules(cached.lines)

    def _rules(self, lines: str) -> RobotsRules:
        rules = self._parsed.get(lines)
        return rules or self._parsed.put(lines, RobotsRules(lines, self._product), len(lines) + FIXED_COST)

    async def _fetch_rules(self, origin: str) -> _CachedRules:
        cached = await self._recall(origin)
        if cached is None:
            cached = await self._fetch_from_host(origin)
            await self._share(origin, cached)
        return self._cache(origin, cached)

    def _is_known(self, origin: str) -> bool:
        cached = self._cached.get(origin)
        return cached is not None and cached.until > self._clock()

    def _cache(self, origin: str, cached: _CachedRules) -> _CachedRules:
        return self._cached.put(origin, cached, len(cached.lines) + FIXED_COST)

    async def _recall(self, origin: str) -> _CachedRules | None:
        """Return the rules that another worker fetched, unless they have expired."""
        if self._store is None:
            return None
        try:
            stored = await self._store.get(self._key(origin))
        except (QueueError, OSError):
            return None
        return self._read_stored(stored, origin) if stored else None

    def _read_stored(self, stored: StoredEntry, origin: str) -> _CachedRules | None:
        try:
            shared = _decoder.decode(stored.value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        failure = None if shared.failure is None else RobotsUnavailable(shared.failure)
        left = (FAILURE_LIFETIME if failure else LIFETIME) - stored.age
        if shared.origin != origin or left <= ZERO:
            return None
        return _CachedRules(shared.lines, failure, self._clock() + left.total_seconds())

    async def _share(self, origin: str, cached: _CachedRules) -> None:
        # Whether an origin may be fetched at all depends on each scraper's own settings, and whether it can
        # be resolved and connected to on the network of each machine.
        if self._store is None or not isinstance(cached.failure, RobotsUnavailable | None):
            return
        shared = _RobotsResponse(origin, cached.lines, str(cached.failure) if cached.failure else None)
        with suppress(QueueError, OSError):
            await self._store.put(self._key(origin), msgspec.msgpack.encode(shared), ttl=LIFETIME)

    def _key(self, origin: str) -> str:
        return f"{self._product} {origin}"

    async def _fetch_from_host(self, origin: str) -> _CachedRules:
        lines = ""
        failure: FetchError | None = None
        try:
            body = await self._download(f"{origin}/robots.txt")
            lines = await self._extract_lines(body)
        except (OutOfScope, DnsFailed) as exc:
            failure = exc  # it is not about robots.txt: no page of the host can be fetched
        except FetchError as exc:
            # Without a connection, the pages fail as robots.txt does: they are retried as after that error.
            reason = f"robots.txt of {origin} is not available: {type(exc).__name__}: {exc}"
            failure = exc if _is_unconnected(exc) else RobotsUnavailable(reason)
        # The operator may allow a private host at any moment, and the refusal costs no request.
        is_refused = isinstance(failure, PrivateAddress)
        lifetime = ZERO if is_refused else FAILURE_LIFETIME if failure else LIFETIME
        lifetime = CONNECT_FAILURE_LIFETIME if _is_unconnected(failure) else lifetime
        return _CachedRules(lines, failure, self._clock() + lifetime.total_seconds())

    async def _download(self, url: str) -> bytes:
        """Return the file, empty when the site has none; raises FetchError."""
        redirects = 0

        async def on_hop(url: str) -> None:
            nonlocal redirects
            redirects += 1
            if redirects > MAX_REDIRECTS:
                raise OutOfScope(f"robots.txt redirects more than {MAX_REDIRECTS} times")

        try:
            response = await self._fetcher.fetch(Request(url=url, timeout=REQUEST_TIMEOUT, on_hop=on_hop))
        except OutOfScope:
            # Redirected out of scope, the file counts as missing.
            if redirects:
                return b""
            raise
        if response.status >= 500:
            raise RobotsUnavailable(f"status {response.status}")
        return response.body if 200 <= response.status <= 299 else b""

    async def _extract_lines(self, body: bytes) -> str:
        if len(body) < THREAD_THRESHOLD:
            return relevant(body, self._product)
        lines = await asyncio.to_thread(relevant, body, self._product)
        rules = await asyncio.to_thread(RobotsRules, lines, self._product)
        self._parsed.put(lines, rules, len(lines) + FIXED_COST)
        return lines


def _is_unconnected(error: FetchError | None) -> bool:
    """Return whether the host could not be connected to, and that is not due to a proxy or to DNS."""
    return type(error) is ConnectFailed or isinstance(error, TlsFailed)


def _origin(href: str) -> str:
    return href[: href.index("/", len("https://"))]
