"""Asks each origin for its robots.txt, once a day for the whole fleet, and keeps to it."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shoal.core.errors import (
    FetchError,
    InvalidUrl,
    OutOfScope,
    QueueError,
    RobotsDenied,
    RobotsUnavailable,
    shorten,
)
from shoal.core.exchange import Request
from shoal.core.model import MINUTE, ZERO
from shoal.core.urls import canonical, join
from shoal.fetch.cache_store import CacheStore, Held
from shoal.fetch.contract import Fetcher
from shoal.fetch.names import Clock
from shoal.fetch.robots_rules import RobotsRules, product_of, relevant
from shoal.fetch.shared import Shared, Shelf

LIFETIME = timedelta(hours=24)
FAILURE_LIFETIME = MINUTE
TIMEOUT = MINUTE / 2
MOST_REDIRECTS = 5
MOST_TEXT = 32 << 20  # characters of all files that are kept
MOST_PARSED = 1 << 20  # characters of those that are kept parsed, which takes up to 80 times the room
LONG = 64 << 10  # characters that are parsed beside the loop, not on it
FIXED_COST = 256  # of keeping one, in characters


class _Kept(NamedTuple):
    lines: str
    failure: FetchError | None
    until: float


class _Said(msgspec.Struct, frozen=True, array_like=True):
    """What an origin said to one worker, as all of them may know it."""

    origin: str
    lines: str
    failure: str | None


_said = msgspec.msgpack.Decoder(_Said)


class Robots:
    """Knows what the robots.txt of every origin says to us.

    With a store, what one worker was told is known to all who share it. A store that fails costs a fetch.
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
        self._kept: Shelf[_Kept] = Shelf(MOST_TEXT)
        self._parsed: Shelf[RobotsRules] = Shelf(MOST_PARSED)
        self._asking: Shared[_Kept] = Shared()

    async def check(self, url: str) -> RobotsRules:
        """Return the rules of a URL's origin; raises RobotsDenied if they forbid it, or as `rules` does."""
        href = canonical(url)
        rules = await self._of(_origin(href))
        if not rules.allows(href):
            raise RobotsDenied(f"robots.txt does not allow {shorten(href)}")
        return rules

    async def rules(self, url: str) -> RobotsRules:
        """Return the rules of a URL's origin.

        Raises RobotsUnavailable while the origin fails to say them, OutOfScope if it may not be asked at all.
        """
        return await self._of(_origin(canonical(url)))

    async def recall(self, url: str) -> bool:
        """Say whether what a URL's origin says is known without asking it."""
        origin = _origin(canonical(url))
        if self._is_known(origin):
            return True
        kept = await self._recall(origin)
        if kept:
            self._keep(origin, kept)
        return kept is not None

    def is_asking(self, url: str) -> bool:
        """Say whether a URL's origin is being asked for its robots.txt now."""
        return _origin(canonical(url)) in self._asking

    def crawl_delay(self, url: str) -> timedelta | None:
        """Return the delay that a URL's origin wants; None if it wants none or has not been asked yet."""
        kept = self._kept.get(_origin(canonical(url)))
        return self._rules(kept.lines).crawl_delay if kept else None

    async def sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the sitemaps that a URL's origin names, as canonical URLs; raises what `rules` raises."""
        origin, found = _origin(canonical(url)), list[str]()
        for href in (await self._of(origin)).sitemaps:
            with suppress(InvalidUrl):
                found.append(join(origin, href))
        return tuple(dict.fromkeys(found))

    async def close(self) -> None:
        """Stop asking, and write down what is on its way."""
        await self._asking.close()
        if self._store:
            await self._store.close()

    async def _of(self, origin: str) -> RobotsRules:
        kept = self._kept.get(origin)
        if kept is None or not self._is_known(origin):
            kept = await self._asking.do(origin, lambda: self._ask(origin))
        if kept.failure:
            raise type(kept.failure)(str(kept.failure))
        return self._rules(kept.lines)

    def _rules(self, lines: str) -> RobotsRules:
        rules = self._parsed.get(lines)
        return rules or self._parsed.put(lines, RobotsRules(lines, self._product), len(lines) + FIXED_COST)

    async def _ask(self, origin: str) -> _Kept:
        kept = await self._recall(origin)
        if kept is None:
            kept = await self._ask_host(origin)
            await self._share(origin, kept)
        return self._keep(origin, kept)

    def _is_known(self, origin: str) -> bool:
        kept = self._kept.get(origin)
        return kept is not None and kept.until > self._clock()

    def _keep(self, origin: str, kept: _Kept) -> _Kept:
        return self._kept.put(origin, kept, len(kept.lines) + FIXED_COST)

    async def _recall(self, origin: str) -> _Kept | None:
        """Return what another worker was told, while it holds."""
        if self._store is None:
            return None
        try:
            held = await self._store.get(self._key(origin))
        except (QueueError, OSError):
            return None
        return self._read_held(held, origin) if held else None

    def _read_held(self, held: Held, origin: str) -> _Kept | None:
        try:
            said = _said.decode(held.value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        failure = RobotsUnavailable(said.failure) if said.failure is not None else None
        left = (FAILURE_LIFETIME if failure else LIFETIME) - held.age
        if said.origin != origin or left <= ZERO:
            return None
        return _Kept(said.lines, failure, self._clock() + left.total_seconds())

    async def _share(self, origin: str, kept: _Kept) -> None:
        # Whether an origin may be asked at all is for each scraper's own settings to say.
        if self._store is None or isinstance(kept.failure, OutOfScope):
            return
        said = _Said(origin, kept.lines, str(kept.failure) if kept.failure else None)
        with suppress(QueueError, OSError):
            await self._store.put(self._key(origin), msgspec.msgpack.encode(said), keep=LIFETIME)

    def _key(self, origin: str) -> str:
        return f"{self._product} {origin}"

    async def _ask_host(self, origin: str) -> _Kept:
        lines = ""
        failure: FetchError | None = None
        try:
            body = await self._download(f"{origin}/robots.txt")
            lines = await self._read(body)
        except OutOfScope as exc:
            failure = exc
        except FetchError as exc:
            failure = RobotsUnavailable(f"robots.txt of {origin} cannot be had: {type(exc).__name__}: {exc}")
        lifetime = FAILURE_LIFETIME if failure else LIFETIME
        return _Kept(lines, failure, self._clock() + lifetime.total_seconds())

    async def _download(self, url: str) -> bytes:
        """Return the file, empty when the site has none; raises FetchError."""
        hops = _Hops()
        try:
            response = await self._fetcher.fetch(Request(url=url, timeout=TIMEOUT, on_hop=hops))
        except OutOfScope:
            # Led astray by redirects, the file counts as missing.
            if hops.count:
                return b""
            raise
        if response.status >= 500:
            raise RobotsUnavailable(f"status {response.status}")
        return response.body if 200 <= response.status <= 299 else b""

    async def _read(self, body: bytes) -> str:
        if len(body) < LONG:
            return relevant(body, self._product)
        lines = await asyncio.to_thread(relevant, body, self._product)
        rules = await asyncio.to_thread(RobotsRules, lines, self._product)
        self._parsed.put(lines, rules, len(lines) + FIXED_COST)
        return lines


class _Hops:
    """Counts redirects, and ends the fetch after the fifth."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, url: str) -> None:
        self.count += 1
        if self.count > MOST_REDIRECTS:
            raise OutOfScope(f"robots.txt redirects more than {MOST_REDIRECTS} times")


def _origin(href: str) -> str:
    return href[: href.index("/", len("https://"))]
