"""A fetcher with a memory: what was fetched a moment ago is not asked for again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from re import Pattern
from secrets import token_hex

from shoal.core.errors import BrokenAnswer, HttpStatus, InvalidUrl, QueueError, shorten
from shoal.core.exchange import Headers, Hop, Request, Response
from shoal.core.model import MINUTE, ZERO
from shoal.core.urls import canonical, host_of, join
from shoal.fetch.answer import accepted
from shoal.fetch.cache_entry import Entry, Signpost, body_of, key_of, pack, pack_signpost, unpack
from shoal.fetch.cache_rules import (
    CONDITIONS,
    KEEPABLE,
    Keeping,
    directives,
    fresh_for,
    keeping,
    refreshed,
    storable,
    validators,
)
from shoal.fetch.cache_store import CacheStore
from shoal.fetch.contract import Fetcher
from shoal.fetch.hops import ACCEPT, REDIRECTS, as_text, for_hop
from shoal.fetch.limits import DEFAULT_LIMITS, Limits

LIFETIME = MINUTE
KEEP = timedelta(days=1)  # what is out of date but can be asked about
LARGEST = 8 << 20  # bytes of one answer, compressed
LONG = 64 << 10  # bytes that are compressed beside the loop, not on it

Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Look:
    """What a look into the cache found: a page that is good, or one that its host must be asked about."""

    page: Response | None = None
    stale: Entry | None = None


NOTHING_KEPT = Look()


class CachingFetcher:
    """Fetches through another fetcher what its store does not have, and keeps it for `lifetime`.

    A host may ask for less by what it says (RFC 9111), never for more. A store that fails costs a fetch, and
    no more. `block` marks pages that are no answers and are not kept. Fetchers share what they keep within a
    `realm`, those that may ask the same private hosts, and where they send the same secrets.
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
        self._logged_in: set[str] = set()  # hosts that may know this fetcher as somebody
        self._own = token_hex(16)
        self._always = {"accept": ACCEPT, "user-agent": user_agent}

    async def fetch(self, request: Request) -> Response:
        """Return the page that is kept, or else the answer of the host, whatever its status."""
        look = await self.look(request)
        return look.page or await self.ask(request, look)

    async def look(self, request: Request) -> Look:
        """Look for a page without asking anyone; raises what `on_hop` raises."""
        sent = self._sent(request)
        if request.post is not None or not _may_look(sent):
            return NOTHING_KEPT
        try:
            url = canonical(request.url)
        except InvalidUrl:
            return NOTHING_KEPT  # whoever is asked for it says what is wrong
        found = await self._follow(request, url, sent)
        if found.page and request.on_bytes:
            await request.on_bytes(len(found.page.body))
        return found

    async def ask(self, request: Request, look: Look = NOTHING_KEPT) -> Response:
        """Ask the host, whatever is kept; a page that it calls unchanged is the one that was found."""
        if look.stale is None:
            response = await self._fetcher.fetch(request)
        else:
            response = await self._asked_about(request, look.stale)
        if request.post is None:
            await self._keep(response, self._sent(request))
        else:
            self._note_login(response)
        return response

    def _note_login(self, response: Response) -> None:
        """Share nothing of a host from now on that was sent a form and set a cookie: it may know us by it."""
        answers = [(hop.url, hop.headers) for hop in response.hops] + [(response.url, response.headers)]
        self._logged_in.update(host_of(url) for url, headers in answers if "set-cookie" in headers)

    async def close(self) -> None:
        """Write down what is on its way, and let go of every connection."""
        await self._store.close()
        await self._fetcher.close()

    async def _follow(self, request: Request, url: str, sent: Mapping[str, str]) -> Look:
        """Go where kept redirects lead; unless that is known to the end, the host is asked from the start."""
        hops: list[Hop] = []
        while True:
            entry, is_fresh = await self._entry(url, sent)
            if entry is None or not is_fresh:
                return NOTHING_KEPT if hops or entry is None else Look(stale=entry)
            if not (onward := _onward(entry)):
                return Look(await self._page(entry, tuple(hops)))
            if len(hops) >= self._limits.max_redirects:
                return NOTHING_KEPT
            hops.append(Hop(url=url, status=entry.status, headers=entry.headers))
            if request.on_hop:
                await request.on_hop(onward)
            url, sent = onward, for_hop(sent, url, onward)

    async def _entry(self, url: str, sent: Mapping[str, str]) -> tuple[Entry | None, bool]:
        """Return what is kept for a URL, and whether it is good without asking."""
        found, age = await self._get(self._key(url, sent), url)
        if isinstance(found, Signpost):
            found, age = await self._get(self._key(url, sent, found.names), url)
        if not isinstance(found, Entry):
            return None, False
        told = None if found.fresh is None else timedelta(seconds=found.fresh)
        age += timedelta(seconds=found.age)
        if age < fresh_for(told, self._lifetime):
            return found, True
        return (found, False) if validators(found.headers) else (None, False)

    async def _get(self, key: str, url: str) -> tuple[Entry | Signpost | None, timedelta]:
        try:
            held = await self._store.get(key)
        except (QueueError, OSError):
            return None, ZERO
        return (unpack(held.value, url, self._limits.max_body), held.age) if held else (None, ZERO)

    async def _page(self, entry: Entry, hops: tuple[Hop, ...] = ()) -> Response | None:
        body = await asyncio.to_thread(body_of, entry) if entry.size > LONG else body_of(entry)
        if body is None:
            return None
        return Response(
            url=entry.url,
            status=entry.status,
            headers=entry.headers,
            body=body,
            redirects=tuple(hop.url for hop in hops),
            hops=hops,
            kept=True,
        )

    async def _asked_about(self, request: Request, stale: Entry) -> Response:
        """Ask the host whether a page has changed, and return the page as it is now."""
        page = await self._page(stale)
        if page is None:
            return await self._fetcher.fetch(request)
        conditions = validators(stale.headers)
        answer = await self._fetcher.fetch(replace(request, headers={**request.headers, **conditions}))
        if answer.status != 304:
            return answer
        if answer.url != stale.url:
            await self._put(self._key(stale.url, self._sent(request)), None)
            raise BrokenAnswer(f"{shorten(answer.url)} calls a page unchanged that it was not asked about")
        if request.on_bytes:
            await request.on_bytes(len(page.body))
        headers = refreshed(stale.headers, answer.headers)
        return replace(page, headers=headers, elapsed=answer.elapsed, kept=False)

    async def _keep(self, response: Response, sent: Mapping[str, str]) -> None:
        """Keep an answer and those that led to it, each by its own rules."""
        if not _may_look(sent):
            return
        urls = [*(hop.url for hop in response.hops), response.url]
        for hop, entered in zip(response.hops, urls[1:], strict=True):
            await self._keep_one(hop.url, hop.status, hop.headers, b"", sent)
            sent = for_hop(sent, hop.url, entered)
        if len(response.hops) == len(response.redirects) and self._is_page(response):
            await self._keep_one(response.url, response.status, response.headers, response.body, sent)

    def _is_page(self, response: Response) -> bool:
        try:
            accepted(response, also=KEEPABLE, block=self._block)
        except HttpStatus:
            return False
        return True

    async def _keep_one(
        self, url: str, status: int, headers: Headers, body: bytes, sent: Mapping[str, str]
    ) -> None:
        kept = keeping(status, headers, sent, self._now())
        if kept is None or (kept.fresh_for(self._lifetime) <= ZERO and not validators(headers)):
            return
        packed = await self._packed(url, status, headers, body, kept)
        if len(packed) > LARGEST:
            return
        if kept.names:
            await self._put(self._key(url, sent), pack_signpost(url, kept.names))
        await self._put(self._key(url, sent, kept.names), packed)

    async def _packed(self, url: str, status: int, headers: Headers, body: bytes, kept: Keeping) -> bytes:
        fields = storable(headers)
        if len(body) > LONG:
            return await asyncio.to_thread(pack, url, status, fields, body, kept)
        return pack(url, status, fields, body, kept)

    async def _put(self, key: str, value: bytes | None) -> None:
        try:
            await self._store.put(key, value, keep=max(KEEP, self._lifetime))
        except (QueueError, OSError):
            return  # it is fetched again

    def _key(self, url: str, sent: Mapping[str, str], names: Sequence[str] = ()) -> str:
        is_own = bool(self._logged_in) and host_of(url) in self._logged_in
        return key_of(url, names, sent, realm=f"{self._realm} {self._own}" if is_own else self._realm)

    def _sent(self, request: Request) -> dict[str, str]:
        return self._always | {name.lower(): value for name, value in request.headers.items()}


def _may_look(sent: Mapping[str, str]) -> bool:
    asked = directives(sent)
    return CONDITIONS.isdisjoint(sent) and "no-store" not in asked and "no-cache" not in asked


def _onward(entry: Entry) -> str | None:
    """Return where a kept redirect leads."""
    location = entry.headers.get("location")
    if entry.status not in REDIRECTS or location is None:
        return None
    try:
        return join(entry.url, as_text(location))
    except InvalidUrl:
        return None
