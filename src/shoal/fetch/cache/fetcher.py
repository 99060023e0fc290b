"""A fetcher with an HTTP cache (RFC 9111)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from re import Pattern
from secrets import token_hex

import msgspec

from shoal.core.errors import BrokenAnswer, InvalidUrl, QueueError
from shoal.core.http import Headers, Hop, Request, Response
from shoal.core.model import MINUTE, ZERO
from shoal.core.text import shorten
from shoal.core.urls import canonical, host_of, join
from shoal.fetch.cache.entry import CacheEntry, body_of, key_of, pack, unpack
from shoal.fetch.cache.rules import (
    CONDITIONS,
    directives,
    fresh_for,
    storable,
    storage_policy,
    update_headers,
    validators,
)
from shoal.fetch.cache.store import CacheStore
from shoal.fetch.contract import DEFAULT_LIMITS, Fetcher, Limits
from shoal.fetch.http.client import ACCEPT, REDIRECTS, as_text, headers_for_hop
from shoal.fetch.status import is_block

LIFETIME = MINUTE
STALE_TTL = timedelta(days=1)  # how long a stale response that can be validated is stored
MAX_ENTRY_SIZE = 8 << 20  # bytes of one response, compressed
THREAD_THRESHOLD = 64 << 10  # bytes; larger bodies are compressed in a thread

Now = Callable[[], datetime]


class CacheLookup(msgspec.Struct, frozen=True):
    """The result of a cache lookup: a fresh page, or a stale one to validate."""

    page: Response | None = None
    stale: CacheEntry | None = None

    @property
    def is_hit(self) -> bool:
        """Whether no request is sent."""
        return self.page is not None


MISS = CacheLookup()


class CachingFetcher:
    """Fetches through another fetcher what is not in the store, and stores it for `lifetime`.

    Response headers (RFC 9111) can shorten that time, never extend it. A store that fails costs a fetch,
    nothing more. `block` matches block pages, which are not stored. Fetchers share responses within a
    `realm`: those that may fetch the same private hosts and send the same secrets.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        store: CacheStore,
        *,
        user_agent: str,
        lifetime: timedelta = LIFETIME,
        limits: Limits = DEFAULT_LIMITS,
        block: Pattern[str] | None = None,
        realm: str = "",
        now: Now = lambda: datetime.now(UTC),
    ) -> None:
        self._fetcher, self._store, self._lifetime = fetcher, store, lifetime
        self._limits, self._block, self._realm, self._now = limits, block, realm, now
        self._logged_in: set[str] = set()  # hosts at which this fetcher may be logged in
        self._private_realm = token_hex(16)
        self._always = {"accept": ACCEPT, "user-agent": user_agent}

    async def fetch(self, request: Request) -> Response:
        """Return the stored page if it is fresh, else the host's response, whatever its status."""
        found = await self.lookup(request)
        return found.page or await self.send(request, found)

    async def lookup(self, request: Request) -> CacheLookup:
        """Look up a page without sending a request; raises what `on_hop` raises."""
        sent = self._request_headers(request)
        if request.post is not None or request.save or not _may_use_cache(sent):
            return MISS
        try:
            url = canonical(request.url)
        except InvalidUrl:
            return MISS  # the inner fetcher reports what is wrong with it
        found = await self._follow_chain(request, url, sent)
        if found.page and request.on_bytes:
            await request.on_bytes(len(found.page.body))
        return found

    async def send(self, request: Request, found: CacheLookup = MISS) -> Response:
        """Send the request whatever is stored; a stale page is validated, and returned after a 304."""
        if found.stale is None:
            response = await self._fetcher.fetch(request)
        else:
            response = await self._validate(request, found.stale)
        if request.save:
            return response  # the file is stored elsewhere
        if request.post is None:
            await self._store_all(response, self._request_headers(request))
        else:
            self._record_login(response)
        return response

    def _record_login(self, response: Response) -> None:
        """Stop sharing a host's pages after a POST that set a cookie: it may be a login."""
        responses = [(hop.url, hop.headers) for hop in response.hops] + [(response.url, response.headers)]
        self._logged_in.update(host_of(url) for url, headers in responses if "set-cookie" in headers)

    async def close(self) -> None:
        """Finish pending writes, and close every connection."""
        await self._store.close()
        await self._fetcher.close()

    async def _follow_chain(self, request: Request, url: str, sent: Mapping[str, str]) -> CacheLookup:
        """Follow stored redirects; a miss anywhere on the way means that the first URL is fetched again."""
        hops: list[Hop] = []
        while True:
            entry, is_fresh = await self._entry(url, sent)
            if entry is None or not is_fresh:
                return MISS if hops or entry is None else CacheLookup(stale=entry)
            if not (onward := _redirect_target(entry)):
                return CacheLookup(await self._page(entry, tuple(hops)))
            if len(hops) >= self._limits.max_redirects:
                return MISS
            hops.append(Hop(url=url, status=entry.status, headers=entry.headers))
            if request.on_hop:
                await request.on_hop(onward)
            url, sent = onward, headers_for_hop(sent, url, onward)

    async def _entry(self, url: str, sent: Mapping[str, str]) -> tuple[CacheEntry | None, bool]:
        """Return the entry of a URL, and whether it is fresh."""
        try:
            held = await self._store.get(self._key(url, sent))
        except (QueueError, OSError):
            return None, False
        entry = unpack(held.value, url, self._limits.max_body) if held else None
        if held is None or entry is None:
            return None, False
        lifetime = None if entry.fresh is None else timedelta(seconds=entry.fresh)
        if held.age + timedelta(seconds=entry.age) < fresh_for(lifetime, self._lifetime):
            return entry, True
        return (entry, False) if validators(entry.headers) else (None, False)

    async def _page(self, entry: CacheEntry, hops: tuple[Hop, ...] = ()) -> Response | None:
        body = await asyncio.to_thread(body_of, entry) if entry.size > THREAD_THRESHOLD else body_of(entry)
        if body is None:
            return None
        return Response(
            url=entry.url,
            status=entry.status,
            headers=entry.headers,
            body=body,
            redirects=tuple(hop.url for hop in hops),
            hops=hops,
            from_cache=True,
        )

    async def _validate(self, request: Request, stale: CacheEntry) -> Response:
        """Validate a stale page with its host, and return the current page."""
        page = await self._page(stale)
        if page is None:
            return await self._fetcher.fetch(request)
        conditions = validators(stale.headers)
        response = await self._fetcher.fetch(replace(request, headers={**request.headers, **conditions}))
        if response.status != 304:
            return response
        if response.url != stale.url:
            await self._put(self._key(stale.url, self._request_headers(request)), None)
            raise BrokenAnswer(f"{shorten(response.url)} sent 304 for a request without conditions")
        if request.on_bytes:
            await request.on_bytes(len(page.body))
        headers = update_headers(stale.headers, response.headers)
        return replace(page, headers=headers, elapsed=response.elapsed, from_cache=False)

    async def _store_all(self, response: Response, sent: Mapping[str, str]) -> None:
        """Store a response and the redirects that led to it, each by its own headers."""
        if not _may_use_cache(sent):
            return
        urls = [*(hop.url for hop in response.hops), response.url]
        for hop, entered in zip(response.hops, urls[1:], strict=True):
            await self._store_one(hop.url, hop.status, hop.headers, b"", sent)
            sent = headers_for_hop(sent, hop.url, entered)
        is_whole = len(response.hops) == len(response.redirects)
        if is_whole and not is_block(response, block=self._block):
            await self._store_one(response.url, response.status, response.headers, response.body, sent)

    async def _store_one(
        self, url: str, status: int, headers: Headers, body: bytes, sent: Mapping[str, str]
    ) -> None:
        policy = storage_policy(status, headers, sent, self._now())
        if policy is None or (policy.fresh_for(self._lifetime) <= ZERO and not validators(headers)):
            return
        packing = partial(pack, url, status, storable(headers), body, policy)
        packed = await asyncio.to_thread(packing) if len(body) > THREAD_THRESHOLD else packing()
        if len(packed) > MAX_ENTRY_SIZE:
            return
        await self._put(self._key(url, sent), packed)

    async def _put(self, key: str, value: bytes | None) -> None:
        try:
            await self._store.put(key, value, ttl=max(STALE_TTL, self._lifetime))
        except (QueueError, OSError):
            return  # it is fetched again next time

    def _key(self, url: str, sent: Mapping[str, str]) -> str:
        is_own = bool(self._logged_in) and host_of(url) in self._logged_in
        return key_of(url, sent, realm=f"{self._realm} {self._private_realm}" if is_own else self._realm)

    def _request_headers(self, request: Request) -> dict[str, str]:
        return self._always | {name.lower(): value for name, value in request.headers.items()}


def _may_use_cache(sent: Mapping[str, str]) -> bool:
    control = directives(sent)
    return CONDITIONS.isdisjoint(sent) and "no-store" not in control and "no-cache" not in control


def _redirect_target(entry: CacheEntry) -> str | None:
    """Return the target of a stored redirect."""
    location = entry.headers.get("location")
    if entry.status not in REDIRECTS or location is None:
        return None
    try:
        return join(entry.url, as_text(location))
    except InvalidUrl:
        return None
