"""Fetching with a browser: a tab for each page, one deadline over it, a new browser for a worn one."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from time import perf_counter
from typing import Any

from shoal.core.browsing import BrowserSettings
from shoal.core.errors import (
    BrowserDown,
    ConnectFailed,
    FetchTimeout,
    InvalidSetting,
    PageCrashed,
    ShoalError,
)
from shoal.core.exchange import Request, Response
from shoal.core.urls import canonical, host_of
from shoal.fetch.browser.chromium import find_chromium, start_chromium
from shoal.fetch.browser.gate import Gate
from shoal.fetch.browser.house import House
from shoal.fetch.browser.live import LivePage
from shoal.fetch.browser.seats import Seats
from shoal.fetch.browser.tab import Tab
from shoal.fetch.browser.trackers import is_tracker
from shoal.fetch.browser.visit import WITHOUT_PAGE, Document, Visit
from shoal.fetch.browser.wire import WireFailed
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.egress import Egress
from shoal.fetch.limits import DEFAULT_LIMITS, Limits
from shoal.fetch.shared import Shared, Shelf

DEFAULT_SETTINGS = BrowserSettings()
OPENING = 30.0  # seconds for a tab to open
TRY_AGAIN = timedelta(seconds=30)  # with a browser that does not start
MOST_SUSPECTS = 10_000
MARKS = {"Secure": "secure", "HttpOnly": "httpOnly"}


class BrowserFetcher:
    """Fetches with Chromium; a response's body is the page as its scripts have made it.

    Every response has its page in `live`, and a tab is taken until `live.let_go()`. Without a user agent of
    the operator's the browser says its own, and `agent` after it.

    A browser that ends under several pages costs none of them an attempt where tasks may go back
    (`may_return`): each is then fetched in a browser of its own, so that the one at fault is found.
    """

    def __init__(
        self,
        settings: BrowserSettings = DEFAULT_SETTINGS,
        limits: Limits = DEFAULT_LIMITS,
        *,
        egress: Egress,
        agent: str,
        user_agent: str | None = None,
        may_return: bool = True,
    ) -> None:
        find_chromium(settings.executable)
        self._settings, self._limits, self._egress = settings, limits, egress
        self._agent, self._user_agent = agent, user_agent
        self._gate = Gate(egress, is_tracker if "trackers" in settings.block else lambda _: False)
        self._seats, self._deadlines = Seats(settings.tabs), Deadlines()
        self._house: House | None = None
        self._worn: set[House] = set()  # spent, with pages that are still open
        self._starting: Shared[House] = Shared()
        self._leaving: set[asyncio.Task[None]] = set()
        self._suspects: Shelf[bool] = Shelf(MOST_SUSPECTS)  # by URL: in doubt until it was fetched alone
        self._on_lost = self._suspect if may_return else None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The first process of each browser."""
        return [house.pid for house in (self._house, *self._worn) if house]

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises FetchError, NotNow, or what `on_hop` raises."""
        if self._closed:
            raise ConnectFailed("This fetcher has been closed")
        if request.post is not None:
            raise InvalidSetting("fetch", "cannot be 'browser' where a form is sent; write 'http'")
        await self._seats.take()
        house: House | None = None
        tab: Tab | None = None
        try:
            house, tab = await self._open(request)
            if request.on_ask:
                request.on_ask()
            visit = Visit(request, self._limits)
            try:
                return await self._visit(visit, house, tab)
            except PageCrashed:
                if visit.is_begun or self._closed:
                    raise
            # The tab crashed before anything was asked, as it waited perhaps: the page has no part in that.
            await house.leave(tab)
            tab = None
            house, tab = await self._open(request)
            return await self._visit(Visit(request, self._limits), house, tab)
        except BaseException:
            self._begin(self._leave(house, tab))
            raise

    def _suspect(self, url: str) -> None:
        self._suspects.put(url, True)

    async def close(self) -> None:
        """End every browser; a fetch that is under way fails."""
        self._closed = True
        await self._starting.close()
        for house in [one for one in (self._house, *self._worn) if one]:
            await house.end()
        self._house = None
        while self._leaving:
            await asyncio.wait(self._leaving)
        await self._gate.close()

    async def _visit(self, visit: Visit, house: House, tab: Tab) -> Response:
        started, request = perf_counter(), visit.request
        try:
            with self._deadlines.within(request.timeout):
                await self._egress_admits(request)
                document = await tab.go(visit, house.user_agent)
                body = await self._body(visit, tab, document)
        except TimeoutError as exc:
            tab.is_broken = True  # what hangs is not to be used again
            raise FetchTimeout(f"No whole page within {request.timeout.total_seconds():g} s") from exc
        live = LivePage(tab, visit, lambda: self._begin(self._leave(house, tab)))
        if request.render:
            request.render(live)
        return Response(
            url=document.url,
            status=document.status,
            headers=document.headers,
            body=body,
            redirects=tuple(hop.url for hop in visit.hops),
            elapsed=timedelta(seconds=perf_counter() - started),
            hops=tuple(visit.hops),
            live=live,
        )

    async def _egress_admits(self, request: Request) -> None:
        # Asked before the browser is, for a clear answer; the gate asks again, of everything.
        if request.way:
            await self._egress.admit_by(request.way, request.url)
        else:
            await self._egress.admit(request.url)

    async def _body(self, visit: Visit, tab: Tab, document: Document) -> bytes:
        body = visit.raw
        if body is None:
            body = (
                await visit.unless_failed(tab.html(self._limits.max_body))
                if document.status not in WITHOUT_PAGE
                else b""
            )
        if visit.request.on_bytes:
            await visit.request.on_bytes(len(body))
        await self._keep_cookies(visit, tab, document)
        return body

    async def _keep_cookies(self, visit: Visit, tab: Tab, document: Document) -> None:
        """Give the visitor's own jar what the page has set."""
        guise = visit.request.guise
        if guise is None:
            return
        with suppress(WireFailed, ShoalError):
            url = canonical(document.url)
            found = (await tab.call("Network.getCookies", urls=[url]))["cookies"]
            guise.cookies.keep(url, host_of(url), map(_as_line, found))
            if visit.secrets:
                visit.secrets.received(map(_as_line, found))

    async def _open(self, request: Request) -> tuple[House, Tab]:
        house = self._house
        if self._suspects.get(request.url):
            house = await self._start_alone()
        elif house is None or house.is_spent:
            house = await self._starting.do("", self._start)
        opening = asyncio.ensure_future(house.open(request.way, request.guise))
        try:
            async with asyncio.timeout(OPENING):
                return house, await asyncio.shield(opening)
        except (WireFailed, TimeoutError) as error:
            self._worn.discard(house)
            self._begin(house.end(is_stuck=True))
            raise BrowserDown(f"The browser opens no page: {error}", TRY_AGAIN) from error
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: self._shut(house, done))
            raise

    def _shut(self, house: House, opened: "asyncio.Future[Tab]") -> None:
        """Close a tab that nobody waits for any more."""
        is_open = not opened.cancelled() and not opened.exception()
        self._begin(self._part(house, opened.result() if is_open else None))

    async def _start(self) -> House:
        old, self._house = self._house, None
        if old:
            self._worn.add(old)
            self._begin(self._end_when_empty(old))
        self._house = await self._start_house(self._settings)
        return self._house

    async def _start_alone(self) -> House:
        """Start a browser for one page, which ends with it."""
        house = await self._start_house(replace(self._settings, max_pages=1))
        self._worn.add(house)
        return house

    async def _start_house(self, settings: BrowserSettings) -> House:
        if not self._gate.is_open:
            await self._gate.open()
        try:
            chromium = await start_chromium(settings, proxy=self._gate.url)
        except WireFailed as error:
            raise BrowserDown(str(error), TRY_AGAIN) from error
        agent = self._user_agent or f"{chromium.user_agent.replace('HeadlessChrome', 'Chrome')} {self._agent}"
        return House(chromium, settings, self._gate.passes, agent, self._on_lost)

    async def _leave(self, house: House | None, tab: Tab | None) -> None:
        try:
            await self._part(house, tab)
        finally:
            self._seats.give()

    async def _part(self, house: House | None, tab: Tab | None) -> None:
        """Close a tab, and a spent browser whose last one it was."""
        if house and tab:
            if not tab.is_broken and self._suspects.get(tab.url):
                self._suspects.put(tab.url, False)
            await house.leave(tab)
        if house in self._worn:
            await self._end_when_empty(house)

    async def _end_when_empty(self, house: House) -> None:
        if house.is_empty:
            self._worn.discard(house)
            await house.end()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


def _as_line(cookie: dict[str, Any]) -> str:
    """Return a cookie of the browser as its host has set it."""
    marks = "".join(f"; {mark}" for mark, key in MARKS.items() if cookie.get(key))
    same_site = f"; SameSite={cookie['sameSite']}" if cookie.get("sameSite") else ""
    return f"{cookie['name']}={cookie['value']}; Path={cookie['path']}{marks}{same_site}"
