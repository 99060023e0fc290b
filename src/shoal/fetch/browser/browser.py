"""One running browser with its contexts and tabs: opened for one page, or reused from page to page."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import msgspec

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import BrowserLost
from shoal.core.http import Identity, Proxy
from shoal.core.model import ZERO
from shoal.core.tasks import watched
from shoal.fetch.browser.cdp import CdpError, Event, retrieve_exception
from shoal.fetch.browser.process import Chromium, largest_page, memory_of
from shoal.fetch.browser.proxy.credentials import ProxyCredential, ProxyCredentials
from shoal.fetch.browser.tab import Tab
from shoal.fetch.singleflight import SingleFlight

MEMORY_CHECK_INTERVAL = timedelta(seconds=1)  # between two checks of its memory
KILL_FACTOR = 2  # times its memory limit: then it is killed at once
MAX_CONTEXTS = 64  # of sessions and proxies that are open at a time
CLOSE_TIMEOUT = timedelta(seconds=5)  # for a tab to close
OPEN_ATTEMPTS = 3  # to open one
CLOSE_INTERVAL = timedelta(seconds=0.5)  # after which a tab that is still open is closed once more

Key = tuple[str, str]
OnLost = Callable[[str], None]  # called with the URL of each page that was open when the browser ended


class BrowserContext(msgspec.Struct, eq=False):
    """Isolated state, shared by the pages of one session and proxy."""

    id: str
    credential: ProxyCredential
    idle: list[Tab] = msgspec.field(default_factory=list)
    used: int = 0


class Browser:
    """A running browser. It is retired after `max_pages` pages, or when it has grown too large.

    With `on_lost`, pages fail with BrowserLost when it ends under several of them.
    """

    def __init__(
        self,
        chromium: Chromium,
        settings: BrowserSettings,
        credentials: ProxyCredentials,
        user_agent: str,
        on_lost: OnLost | None = None,
    ) -> None:
        self._chromium, self._settings, self._credentials = chromium, settings, credentials
        self._on_lost = on_lost
        self.user_agent = user_agent
        self._contexts: dict[Key, BrowserContext] = {}
        self._creating: SingleFlight[BrowserContext] = SingleFlight()
        self._open_tabs: dict[Tab, BrowserContext] = {}
        self._spare: asyncio.Task[tuple[Tab, BrowserContext]] | None = None
        self._pages = self._opening = self._closing_count = self._use_count = 0
        self._is_large = self._is_ended = False
        self._closing: dict[str, asyncio.Future[None]] = {}
        chromium.cdp.listen("", self._on_event)
        self._watching = watched(asyncio.get_running_loop().create_task(self._watch()))

    @property
    def pid(self) -> int:
        """Its main process."""
        return self._chromium.pid

    @property
    def is_retired(self) -> bool:
        """Whether the next page should use another browser."""
        return self.retired_because is not None

    @property
    def retired_because(self) -> str | None:
        """Why the next page should use another browser; None if it should not."""
        if self._is_ended or not self._chromium.cdp.is_open:
            return "it has ended"
        if self._is_large:
            return "it takes too much memory"
        if self._pages >= self._settings.max_pages:
            return f"it has opened {self._pages} pages, max_pages={self._settings.max_pages}"
        return None

    @property
    def is_empty(self) -> bool:
        """Whether no page is open."""
        return not self._open_tabs and not self._opening

    async def open(self, proxy: Proxy | None, identity: Identity | None) -> Tab:
        """Return a tab for one page; raises CdpError."""
        self._pages += 1
        self._opening += 1
        try:
            return await self._open_tab(proxy, identity)
        finally:
            self._opening -= 1

    async def _open_tab(self, proxy: Proxy | None, identity: Identity | None) -> Tab:
        if self._settings.context == "task":
            return await self._isolated_tab(proxy)
        key = (identity.key if identity else "", proxy.name if proxy else "")
        # Single-flight: a concurrent page of the same key must not get another context.
        context = self._contexts.get(key) or await self._creating.do(
            repr(key), lambda: self._create_context(key, proxy)
        )
        self._touch(context)
        while context.idle:
            tab = context.idle.pop()
            if not tab.is_broken:
                return self._take(tab, context)
            await self._close_tab(tab)  # it crashed while it was idle
        await self._close_idle()
        return self._take(*await self._new_tab(context))

    async def _create_context(self, key: Key, proxy: Proxy | None) -> BrowserContext:
        await self._evict_context()
        made = self._contexts[key] = await self._new_context(proxy)
        self._touch(made)
        return made

    def _touch(self, context: BrowserContext) -> None:
        self._use_count += 1
        context.used = self._use_count

    async def _isolated_tab(self, proxy: Proxy | None) -> Tab:
        """Return a tab in its own context: the prepared one, or a new one."""
        spare, self._spare = self._spare, None
        tab, context = await (spare or self._new_pair())
        if tab.is_broken:  # it crashed while it was idle
            await self._close_context(context, tab)
            tab, context = await self._new_pair()
        context.credential.proxy = proxy
        self._prepare_next()
        return self._take(tab, context)

    def _prepare_next(self) -> None:
        """Open the next tab while the page loads: opening a context would delay a start that is due."""
        # Another page may have done so in the meantime: a second spare tab would never be closed.
        if self._spare is None and not self.is_retired:
            self._spare = asyncio.get_running_loop().create_task(self._new_pair())
            self._spare.add_done_callback(retrieve_exception)

    async def _new_pair(self) -> tuple[Tab, BrowserContext]:
        return await self._new_tab(await self._new_context(None))

    def _take(self, tab: Tab, context: BrowserContext) -> Tab:
        self._open_tabs[tab] = context
        return tab

    async def _close_idle(self) -> None:
        """Close the tabs that were idle longest, until those that are being opened fit the limit."""
        waiting = sorted(self._contexts.values(), key=lambda context: context.used)
        idle = sum(len(context.idle) for context in waiting)
        busy = len(self._open_tabs) + self._opening + self._closing_count
        spare = busy + idle - self._settings.tabs
        for context in waiting:
            while context.idle and spare > 0:
                spare -= 1
                await self._close_tab(context.idle.pop(0))

    async def _evict_context(self) -> None:
        """Close the least recently used context, when there are many."""
        open_ones = set(self._open_tabs.values())
        if len(self._contexts) < MAX_CONTEXTS:
            return
        closable = [key for key, context in self._contexts.items() if context not in open_ones]
        if closable:
            oldest = self._contexts.pop(min(closable, key=lambda key: self._contexts[key].used))
            for tab in oldest.idle:
                tab.close()
            self._credentials.revoke(oldest.credential)
            await self._chromium.cdp.call("Target.disposeBrowserContext", browserContextId=oldest.id)

    async def release(self, tab: Tab) -> None:
        """Take a tab back, and stop everything on its page."""
        context = self._open_tabs.pop(tab, None)
        if context is None or self._is_ended:
            return
        self._closing_count += 1
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                if self._settings.context == "session" and not tab.is_broken and not self.is_retired:
                    await tab.blank()
                    context.idle.append(tab)
                elif self._settings.context == "session":
                    await self._close_tab(tab)
                else:
                    await self._close_context(context, tab)
        except (CdpError, TimeoutError):
            tab.close()
            self._is_large = True  # not safe for another page
        finally:
            self._closing_count -= 1

    async def end(self, *, is_stuck: bool = False) -> None:
        """End the browser and all its processes; if it `is_stuck`, its pages are not at fault."""
        if self._is_ended:
            return
        if is_stuck:
            self._fail_pages(1)
        self._is_ended = True
        self._watching.cancel()
        if self._spare:
            self._spare.cancel()
        for tab, context in self._open_tabs.items():
            tab.close()
            self._credentials.revoke(context.credential)
        for context in self._contexts.values():
            self._credentials.revoke(context.credential)
        await self._chromium.kill()

    async def _new_context(self, proxy: Proxy | None) -> BrowserContext:
        made = await self._chromium.cdp.call("Target.createBrowserContext", disposeOnDetach=True)
        credential = self._credentials.create(proxy)
        context = BrowserContext(made["browserContextId"], credential)
        self._chromium.cdp.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context.id)
        return context

    async def _new_tab(self, context: BrowserContext) -> tuple[Tab, BrowserContext]:
        """Open a tab; one that crashes before it is ready is replaced, at no cost to the other pages."""
        for left in reversed(range(OPEN_ATTEMPTS)):
            tab = await self._attach_tab(context)
            try:
                await tab.prepare(self.user_agent)
                break
            except CdpError:
                if not left or not tab.is_broken:
                    raise
                await self._close_tab(tab)
        return tab, context

    async def _attach_tab(self, context: BrowserContext) -> Tab:
        cdp = self._chromium.cdp
        made = await cdp.call("Target.createTarget", url="about:blank", browserContextId=context.id)
        attached = await cdp.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        return Tab(cdp, attached["sessionId"], made["targetId"], context.credential, self._settings)

    async def _close_tab(self, tab: Tab) -> None:
        """Close a tab, and wait for its end: Chromium may ignore a close while the tab navigates."""
        tab.close()
        closed = self._closing[tab.session] = asyncio.get_running_loop().create_future()
        try:
            with suppress(CdpError):  # it is closed already
                while not closed.done():
                    await self._chromium.cdp.call("Target.closeTarget", targetId=tab.frame)
                    await asyncio.wait([closed], timeout=CLOSE_INTERVAL.total_seconds())
        finally:
            del self._closing[tab.session]

    def _on_event(self, method: str, event: Event, size: int) -> None:
        if method == "Target.detachedFromTarget":
            closed = self._closing.get(event["sessionId"])
            if closed and not closed.done():
                closed.set_result(None)
        elif method == "Inspector.detached" and not self._is_ended:
            self._fail_pages(2)  # handled before the tabs are, which would each count it as their own fault

    def _fail_pages(self, least: int) -> None:
        """Fail open pages at no cost where at least `least` are open: it is unknown which one is at fault."""
        pages = [tab for tab in self._open_tabs if tab.url]
        if self._on_lost is None or len(pages) < least:
            return
        for tab in pages:
            self._on_lost(tab.url)
            tab.fail(BrowserLost("The browser ended under several pages; each is fetched again alone", ZERO))

    async def _close_context(self, context: BrowserContext, tab: Tab) -> None:
        tab.close()
        self._credentials.revoke(context.credential)
        self._chromium.cdp.call("Target.closeTarget", targetId=tab.frame)
        await self._chromium.cdp.call("Target.disposeBrowserContext", browserContextId=context.id)

    async def _watch(self) -> None:
        while self._chromium.cdp.is_open:
            used = await asyncio.to_thread(memory_of, self._chromium.pid)
            self._is_large = self._is_large or used > self._settings.memory
            if used > KILL_FACTOR * self._settings.memory and not await asyncio.to_thread(
                self._kill_largest_page
            ):
                with suppress(Exception):
                    await self._chromium.kill()
                return
            await asyncio.sleep(MEMORY_CHECK_INTERVAL.total_seconds())

    def _kill_largest_page(self) -> bool:
        """Kill the process of a page that alone exceeds the memory limit; False where none does."""
        process, size = largest_page(self._chromium.pid)
        if size <= self._settings.memory:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
        return True
