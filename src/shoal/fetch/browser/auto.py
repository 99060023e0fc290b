"""Chooses how a page is fetched: with HTTP, in a browser, or with the one that its step names."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import NeedsBrowser, ShoalError
from shoal.core.http import LiveTab, Request, Response
from shoal.fetch.contract import Fetcher
from shoal.fetch.shared_state import SharedState

TOPIC = "pages that need a browser"
HINT_TTL = timedelta(hours=6)  # then a site may have changed, and is tried by HTTP again
READ_INTERVAL_SECONDS = 5.0
MAX_BYTES = 4 << 20
MAX_KNOWN = 10_000
_NUMBERED = re.compile(r"\d|^.{25,}$")


def shape(url: str) -> str:
    """Return what pages of one kind have in common: their host, and the path without its variable parts."""
    _, _, host, *rest = url.split("/", 3)
    path = "".join(rest).partition("?")[0]
    folder, _, _ = path.rpartition("/")
    parts = ["*" if _NUMBERED.search(part) else part for part in folder.split("/")[:8] if part]
    return "/".join([host, *parts, "*" if path else ""])[:400]


class RenderHints:
    """Remembers kinds of pages, and reads what the fleet knows now and then."""

    def __init__(
        self, queue: SharedState, *, ttl: timedelta = HINT_TTL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue, self._ttl, self._clock = queue, ttl, clock
        self._until: dict[str, float] = {}
        self._read_at = float("-inf")

    async def need_browser(self, kind: str) -> bool:
        """Tell whether pages of a kind are known to need a browser."""
        now = self._clock()
        if self._until.get(kind, now) > now:
            return True
        if now - self._read_at < READ_INTERVAL_SECONDS:
            return False
        self._read_at = now
        with suppress(ShoalError):
            for other, note in (await self._queue.notes(TOPIC)).items():
                self._remember(other, now + (self._ttl - note.age).total_seconds())
        return self._until.get(kind, now) > now

    async def learn(self, kind: str) -> None:
        """Record that pages of a kind need a browser, and share it with the fleet."""
        self._remember(kind, self._clock() + self._ttl.total_seconds())
        with suppress(ShoalError):
            await self._queue.write_notes(TOPIC, {kind: b"1"}, ttl=self._ttl)
            await self._queue.trim_notes(TOPIC, max_bytes=MAX_BYTES)

    def _remember(self, kind: str, until: float) -> None:
        if len(self._until) >= MAX_KNOWN:
            self._until.clear()  # the fleet still has them
        self._until[kind] = until


class AutoFetcher:
    """Fetches by HTTP first, unless the page is known to need a browser.

    `gap` is the delay between two requests to a host. A page that turns out to need a browser is postponed by
    that delay, and then fetched with one; where it may not be postponed (`Request.on_sent`), the second
    request waits here. It closes nothing, since it does not own the fetchers that it wraps.
    """

    def __init__(
        self,
        http: Fetcher,
        browser: Fetcher,
        sites: RenderHints,
        needs_browser: Callable[[Response], bool],
        *,
        gap: timedelta,
    ) -> None:
        self._http, self._browser, self._sites = http, browser, sites
        self._needs_browser, self._gap = needs_browser, gap

    async def fetch(self, request: Request) -> Response:
        """Return the response of the fetcher that fits; raises as they do, and NeedsBrowser."""
        kind, may_render = shape(request.url), request.post is None
        if may_render and await self._sites.need_browser(kind):
            return await self._browser.fetch(request)
        if request.on_send:
            request.on_send()
        response = await self._http.fetch(replace(request, on_send=None))
        is_page = may_render and 200 <= response.status <= 299
        if not is_page or not self._needs_browser(response):
            return response
        await self._sites.learn(kind)
        if self._gap and not request.on_sent:
            raise NeedsBrowser(f"{kind} is built by scripts, and is fetched with a browser", self._gap)
        await asyncio.sleep(self._gap.total_seconds())
        return await self._browser.fetch(replace(request, on_send=None))

    async def close(self) -> None:
        """Close nothing."""


class RenderingFetcher:
    """Requests that every page is rendered; the outermost fetcher.

    Fetchers between may discard a response or send twice: every page that is not returned is released here.
    It closes nothing, since it does not own the fetcher that it wraps.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the response with its live page; raises as the fetcher does."""
        opened: list[LiveTab] = []
        live_page: LiveTab | None = None
        try:
            response = await self._fetcher.fetch(replace(request, render=opened.append))
            live_page = response.live
            return response
        finally:
            for live in opened:
                if live is not live_page:
                    live.release()

    async def close(self) -> None:
        """Close nothing."""
