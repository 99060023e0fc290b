"""Fetches with a browser: a tab per page, one deadline for all of it, a new browser for a retired one."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from time import perf_counter
from typing import Any, Literal

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import (
    BrowserDown,
    ConnectFailed,
    FetchTimeout,
    InvalidSetting,
    NoTabFree,
    PageCrashed,
    ShoalError,
)
from shoal.core.http import Request, Response
from shoal.core.model import SECOND
from shoal.core.request_options import POST
from shoal.core.tasks import start_in
from shoal.core.urls import canonical, host_of
from shoal.fetch.browser.browser import Browser
from shoal.fetch.browser.cdp import CdpError
from shoal.fetch.browser.live import LivePage
from shoal.fetch.browser.navigation import WITHOUT_PAGE, Navigation
from shoal.fetch.browser.process import find_chromium, start_chromium
from shoal.fetch.browser.proxy.server import BrowserProxy
from shoal.fetch.browser.tab import Tab
from shoal.fetch.browser.trackers import is_tracker
from shoal.fetch.contract import DEFAULT_LIMITS, Limits
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.egress import Egress
from shoal.fetch.singleflight import LruCache, SingleFlight

MAX_WAITERS = 64  # waiting callers per tab
TAB_WAIT = 30 * SECOND

log = logging.getLogger(__name__)
DEFAULT_SETTINGS = BrowserSettings()
OPEN_TIMEOUT = timedelta(seconds=30)  # for a tab to open
BROWSER_WAIT = timedelta(seconds=30)  # after a browser that does not start
MAX_SUSPECTS = 10_000
FLAGS = {"Secure": "secure", "HttpOnly": "httpOnly"}


class TabLimit(asyncio.Semaphore):
    """A number of tabs, granted in the order of requests."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._max_waiting, self._waiting = MAX_WAITERS * count, 0

    async def acquire(self) -> Literal[True]:
        """Wait for a tab; raises NoTabFree where too many callers wait already."""
        if self._waiting >= self._max_waiting:
            raise NoTabFree("Every tab of this worker's browser is in use", TAB_WAIT)
        self._waiting += 1
        try:
            return await super().acquire()
        finally:
            self._waiting -= 1


class BrowserFetcher:
    """Fetches with Chromium; a response's body is the page after its scripts have run.

    Every response has its page in `live`, which uses a tab until `live.release()`. Without a user agent of
    the operator's, the browser sends its own, followed by `agent`.

    A browser that ends under several pages costs none of them an attempt where tasks may be requeued
    (`may_return`): each is then fetched in its own browser, so that the one at fault is found.
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
        self._proxy = BrowserProxy(egress, is_tracker if "trackers" in settings.block else lambda _: False)
        self._tab_limit, self._deadlines = TabLimit(settings.tabs), Deadlines()
        self._current: Browser | None = None
        self._retired: set[Browser] = set()  # retired, with pages that are still open
        self._starting: SingleFlight[Browser] = SingleFlight()
        self._tasks: set[asyncio.Task[None]] = set()
        self._suspects: LruCache[bool] = LruCache(MAX_SUSPECTS)  # by URL: suspect until it was fetched alone
        self._on_lost = self._suspect if may_return else None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The main process of each browser."""
        return [browser.pid for browser in (self._current, *self._retired) if browser]

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, NotNow, or what `on_hop` raises."""
        if self._closed:
            raise ConnectFailed("This fetcher has been closed")
        if request.post is not None:
            what = "a form is sent" if request.method == POST else f"the method is {request.method}"
            raise InvalidSetting("fetch", f"cannot be 'browser' where {what}; write 'http'")
        await self._tab_limit.acquire()
        browser: Browser | None = None
        tab: Tab | None = None
        try:
            browser, tab = await self._open(request)
            if request.on_send:
                request.on_send()
            navigation = Navigation(request, self._limits)
            try:
                return await self._navigate(navigation, browser, tab)
            except PageCrashed:
                if navigation.is_started or self._closed:
                    raise
            # The tab crashed before any request, perhaps while idle: the page is not at fault.
            await browser.release(tab)
            tab = None
            browser, tab = await self._open(request)
            return await self._navigate(Navigation(request, self._limits), browser, tab)
        except BaseException:
            start_in(self._tasks, self._release_tab(browser, tab))
            raise

    def _suspect(self, url: str) -> None:
        self._suspects.put(url, True)

    async def close(self) -> None:
        """End every browser; a fetch in progress fails."""
        self._closed = True
        await self._starting.close()
        for browser in [one for one in (self._current, *self._retired) if one]:
            await browser.end()
        self._current = None
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._proxy.close()

    async def _navigate(self, navigation: Navigation, browser: Browser, tab: Tab) -> Response:
        started, request = perf_counter(), navigation.request
        try:
            with self._deadlines.within(request.timeout):
                # Checked before the browser starts, for a clear error; the browser proxy checks again.
                await self._egress.admit_request(request.url, request.proxy)
                document = await tab.navigate(navigation, browser.user_agent)
                body = await self._body(navigation, tab, document)
        except TimeoutError as exc:
            tab.is_broken = True  # a tab that hangs is not reused
            raise FetchTimeout(f"No complete page within {request.timeout.total_seconds():g} s") from exc
        live = LivePage(tab, navigation, lambda: start_in(self._tasks, self._release_tab(browser, tab)))
        if request.render:
            request.render(live)
        return replace(
            document,
            body=body,
            redirects=tuple(hop.url for hop in navigation.hops),
            elapsed=timedelta(seconds=perf_counter() - started),
            hops=tuple(navigation.hops),
            live=live,
        )

    async def _body(self, navigation: Navigation, tab: Tab, document: Response) -> bytes:
        body = navigation.raw
        if body is None:
            body = (
                await navigation.unless_failed(tab.html(self._limits.max_body))
                if document.status not in WITHOUT_PAGE
                else b""
            )
        if navigation.request.on_bytes:
            await navigation.request.on_bytes(len(body))
        await self._store_cookies(navigation, tab, document)
        return body

    async def _store_cookies(self, navigation: Navigation, tab: Tab, document: Response) -> None:
        """Store the cookies that the page has set in the session's own jar."""
        identity = navigation.request.identity
        if identity is None:
            return
        with suppress(CdpError, ShoalError):
            url = canonical(document.url)
            found = (await tab.call("Network.getCookies", urls=[url]))["cookies"]
            identity.cookies.store(url, host_of(url), map(_as_set_cookie, found))
            if navigation.secrets:
                navigation.secrets.received(map(_as_set_cookie, found))

    async def _open(self, request: Request) -> tuple[Browser, Tab]:
        browser = self._current
        if self._suspects.get(request.url):
            # For this page alone, and it ends with it.
            browser = await self._launch(replace(self._settings, max_pages=1))
            self._retired.add(browser)
        elif browser is None or browser.is_retired:
            browser = await self._starting.do("", self._start)
        opening = asyncio.ensure_future(browser.open(request.proxy, request.identity))
        try:
            async with asyncio.timeout(OPEN_TIMEOUT.total_seconds()):
                return browser, await asyncio.shield(opening)
        except (CdpError, TimeoutError) as error:
            self._retired.discard(browser)
            start_in(self._tasks, browser.end(is_stuck=True))
            raise BrowserDown(f"The browser cannot open a page: {error}", BROWSER_WAIT) from error
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: self._close_late_tab(browser, done))
            raise

    def _close_late_tab(self, browser: Browser, opened: "asyncio.Future[Tab]") -> None:
        """Close a tab that is no longer awaited."""
        is_open = not opened.cancelled() and not opened.exception()
        start_in(self._tasks, self._close_tab(browser, opened.result() if is_open else None))

    async def _start(self) -> Browser:
        old, self._current = self._current, None
        if old:
            log.info("The browser (pid %d) is replaced: %s", old.pid, old.retired_because)
            self._retired.add(old)
            start_in(self._tasks, self._end_when_empty(old))
        self._current = await self._launch(self._settings)
        return self._current

    async def _launch(self, settings: BrowserSettings) -> Browser:
        if not self._proxy.is_open:
            await self._proxy.open()
        try:
            chromium = await start_chromium(settings, proxy=self._proxy.url)
        except CdpError as error:
            raise BrowserDown(str(error), BROWSER_WAIT) from error
        agent = self._user_agent or f"{chromium.user_agent.replace('HeadlessChrome', 'Chrome')} {self._agent}"
        return Browser(chromium, settings, self._proxy.credentials, agent, self._on_lost)

    async def _release_tab(self, browser: Browser | None, tab: Tab | None) -> None:
        try:
            await self._close_tab(browser, tab)
        finally:
            self._tab_limit.release()

    async def _close_tab(self, browser: Browser | None, tab: Tab | None) -> None:
        """Close a tab, and a retired browser whose last one it was."""
        if browser and tab:
            if not tab.is_broken and self._suspects.get(tab.url):
                self._suspects.put(tab.url, False)
            await browser.release(tab)
        if browser in self._retired:
            await self._end_when_empty(browser)

    async def _end_when_empty(self, browser: Browser) -> None:
        if browser.is_empty:
            self._retired.discard(browser)
            await browser.end()


def _as_set_cookie(cookie: dict[str, Any]) -> str:
    """Return a cookie of the browser as a Set-Cookie line."""
    flags = "".join(f"; {flag}" for flag, key in FLAGS.items() if cookie.get(key))
    same_site = f"; SameSite={cookie['sameSite']}" if cookie.get("sameSite") else ""
    # A host alone has no leading dot.
    domain = f"; Domain={cookie['domain']}" if cookie["domain"].startswith(".") else ""
    return f"{cookie['name']}={cookie['value']}; Path={cookie['path']}{domain}{flags}{same_site}"
