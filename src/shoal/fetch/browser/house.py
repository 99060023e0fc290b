"""One running browser with its contexts and tabs: opened for a page, or kept from page to page."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from shoal.core.browsing import BrowserSettings
from shoal.core.errors import BrowserLost
from shoal.core.exchange import Guise, Way
from shoal.core.model import ZERO
from shoal.core.tasks import watched
from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.memory import largest_page, memory_of
from shoal.fetch.browser.passes import Pass, Passes
from shoal.fetch.browser.tab import Tab
from shoal.fetch.browser.wire import Event, WireFailed
from shoal.fetch.shared import Shared

LOOK_EVERY = 1.0  # seconds between two looks at its memory
FAR_TOO_MUCH = 2  # times its memory: then it is not waited for
MOST_CONTEXTS = 64  # of visitors and ways that are remembered at a time
PATIENCE = 5.0  # seconds for a tab to close
TRIES = 3  # to open one
TELL_AGAIN = 0.5  # seconds after which a tab that is still there is told once more

Key = tuple[str, str]
OnLost = Callable[[str], None]  # told the URL of each page that was open when the browser ended


@dataclass(slots=True, eq=False)
class Context:
    """What pages share that belong together, and share with no others."""

    id: str
    shown: Pass
    idle: list[Tab] = field(default_factory=list)
    used: int = 0


class House:
    """A browser at work. It is spent after so many pages, or when it has grown, and then takes no more.

    With `on_lost`, pages fail with BrowserLost when it ends under several of them.
    """

    def __init__(
        self,
        chromium: Chromium,
        settings: BrowserSettings,
        passes: Passes,
        user_agent: str,
        on_lost: OnLost | None = None,
    ) -> None:
        self._chromium, self._settings, self._passes = chromium, settings, passes
        self._on_lost = on_lost
        self.user_agent = user_agent
        self._contexts: dict[Key, Context] = {}
        self._making: Shared[Context] = Shared()
        self._homes: dict[Tab, Context] = {}
        self._spare: asyncio.Task[tuple[Tab, Context]] | None = None
        self._pages = self._opening = self._leaving = self._count = 0
        self._is_large = self._is_ended = False
        self._closing: dict[str, asyncio.Future[None]] = {}
        chromium.wire.listen("", self._hear)
        self._watching = watched(asyncio.get_running_loop().create_task(self._watch()))

    @property
    def pid(self) -> int:
        """Its first process."""
        return self._chromium.pid

    @property
    def is_spent(self) -> bool:
        """Whether the next page should have another browser."""
        is_worn = self._pages >= self._settings.max_pages or self._is_large
        return is_worn or self._is_ended or not self._chromium.wire.is_open

    @property
    def is_empty(self) -> bool:
        """Whether no page is open."""
        return not self._homes and not self._opening

    async def open(self, way: Way | None, guise: Guise | None) -> Tab:
        """Return a tab for one page; raises WireFailed."""
        self._pages += 1
        self._opening += 1
        try:
            return await self._opened(way, guise)
        finally:
            self._opening -= 1

    async def _opened(self, way: Way | None, guise: Guise | None) -> Tab:
        if self._settings.context == "task":
            return await self._fresh_tab(way)
        key = (guise.key if guise else "", way.name if way else "")
        # Shared, for who comes at the same time must not be given another one.
        context = self._contexts.get(key) or await self._making.do(repr(key), lambda: self._enter(key, way))
        self._use(context)
        while context.idle:
            tab = context.idle.pop()
            if not tab.is_broken:
                return self._take(tab, context)
            await self._close_tab(tab)  # it crashed while it waited
        await self._close_idle()
        return self._take(*await self._new_tab(context))

    async def _enter(self, key: Key, way: Way | None) -> Context:
        await self._make_room()
        made = self._contexts[key] = await self._new_context(way)
        self._use(made)
        return made

    def _use(self, context: Context) -> None:
        self._count += 1
        context.used = self._count

    async def _fresh_tab(self, way: Way | None) -> Tab:
        """Return a tab with a context of its own: the one that was made ready, or a new one."""
        spare, self._spare = self._spare, None
        tab, context = await (spare or self._new_pair())
        if tab.is_broken:  # it crashed while it waited
            await self._close_context(context, tab)
            tab, context = await self._new_pair()
        context.shown.way = way
        self._make_ready()
        return self._take(tab, context)

    def _make_ready(self) -> None:
        """Open the next tab while the page loads: a host's moment would pass while a context is opened."""
        # Another page may have seen to it meanwhile: a tab that is forgotten for a second is never closed.
        if self._spare is None and not self.is_spent:
            self._spare = asyncio.get_running_loop().create_task(self._new_pair())
            self._spare.add_done_callback(_seen)

    async def _new_pair(self) -> tuple[Tab, Context]:
        return await self._new_tab(await self._new_context(None))

    def _take(self, tab: Tab, context: Context) -> Tab:
        self._homes[tab] = context
        return tab

    async def _close_idle(self) -> None:
        """Close the tabs that have waited longest, until there is room for those that are being opened."""
        waiting = sorted(self._contexts.values(), key=lambda context: context.used)
        idle = sum(len(context.idle) for context in waiting)
        busy = len(self._homes) + self._opening + self._leaving
        spare = busy + idle - self._settings.tabs
        for context in waiting:
            while context.idle and spare > 0:
                spare -= 1
                await self._close_tab(context.idle.pop(0))

    async def _make_room(self) -> None:
        """Close the context that was used longest ago, when there are many."""
        open_ones = set(self._homes.values())
        if len(self._contexts) < MOST_CONTEXTS:
            return
        closable = [key for key, context in self._contexts.items() if context not in open_ones]
        if closable:
            oldest = self._contexts.pop(min(closable, key=lambda key: self._contexts[key].used))
            for tab in oldest.idle:
                tab.close()
            self._passes.take_back(oldest.shown)
            await self._chromium.wire.call("Target.disposeBrowserContext", browserContextId=oldest.id)

    async def leave(self, tab: Tab) -> None:
        """Take a tab back, and let nothing of its page go on."""
        context = self._homes.pop(tab, None)
        if context is None or self._is_ended:
            return
        self._leaving += 1
        try:
            async with asyncio.timeout(PATIENCE):
                if self._settings.context == "session" and not tab.is_broken and not self.is_spent:
                    await tab.blank()
                    context.idle.append(tab)
                elif self._settings.context == "session":
                    await self._close_tab(tab)
                else:
                    await self._close_context(context, tab)
        except (WireFailed, TimeoutError):
            tab.close()
            self._is_large = True  # not to be trusted with another page
        finally:
            self._leaving -= 1

    async def end(self, *, is_stuck: bool = False) -> None:
        """End the browser and all its processes; one that `is_stuck` is no fault of the pages in it."""
        if self._is_ended:
            return
        if is_stuck:
            self._lose_pages(1)
        self._is_ended = True
        self._watching.cancel()
        if self._spare:
            self._spare.cancel()
        for tab, context in self._homes.items():
            tab.close()
            self._passes.take_back(context.shown)
        for context in self._contexts.values():
            self._passes.take_back(context.shown)
        await self._chromium.kill()

    async def _new_context(self, way: Way | None) -> Context:
        made = await self._chromium.wire.call("Target.createBrowserContext", disposeOnDetach=True)
        shown = self._passes.give(way)
        context = Context(made["browserContextId"], shown)
        self._chromium.wire.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context.id)
        return context

    async def _new_tab(self, context: Context) -> tuple[Tab, Context]:
        """Open a tab; one that crashes before it is ready costs a new one, and no other page its browser."""
        for left in reversed(range(TRIES)):
            tab = await self._attached(context)
            try:
                await tab.prepare(self.user_agent)
                break
            except WireFailed:
                if not left or not tab.is_broken:
                    raise
                await self._close_tab(tab)
        return tab, context

    async def _attached(self, context: Context) -> Tab:
        wire = self._chromium.wire
        made = await wire.call("Target.createTarget", url="about:blank", browserContextId=context.id)
        attached = await wire.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        return Tab(wire, attached["sessionId"], made["targetId"], context.shown, self._settings)

    async def _close_tab(self, tab: Tab) -> None:
        """Close a tab, and do not believe it: told while it changes pages, Chromium may forget it."""
        tab.close()
        closed = self._closing[tab.session] = asyncio.get_running_loop().create_future()
        try:
            with suppress(WireFailed):  # it is gone already
                while not closed.done():
                    await self._chromium.wire.call("Target.closeTarget", targetId=tab.frame)
                    await asyncio.wait([closed], timeout=TELL_AGAIN)
        finally:
            del self._closing[tab.session]

    def _hear(self, method: str, event: Event, size: int) -> None:
        if method == "Target.detachedFromTarget":
            closed = self._closing.get(event["sessionId"])
            if closed and not closed.done():
                closed.set_result(None)
        elif method == "Inspector.detached" and not self._is_ended:
            self._lose_pages(2)  # heard before the tabs hear it, which would each take it for their own fault

    def _lose_pages(self, least: int) -> None:
        """Let pages fail at no cost where so many are open, for nobody knows which of them is at fault."""
        pages = [tab for tab in self._homes if tab.url]
        if self._on_lost is None or len(pages) < least:
            return
        for tab in pages:
            self._on_lost(tab.url)
            tab.lose(BrowserLost("The browser ended under several pages; each is fetched again alone", ZERO))

    async def _close_context(self, context: Context, tab: Tab) -> None:
        tab.close()
        self._passes.take_back(context.shown)
        self._chromium.wire.call("Target.closeTarget", targetId=tab.frame)
        await self._chromium.wire.call("Target.disposeBrowserContext", browserContextId=context.id)

    async def _watch(self) -> None:
        while self._chromium.wire.is_open:
            used = await asyncio.to_thread(memory_of, self._chromium.pid)
            self._is_large = self._is_large or used > self._settings.memory
            if used > FAR_TOO_MUCH * self._settings.memory and not await asyncio.to_thread(self._end_page):
                with suppress(Exception):
                    await self._chromium.kill()
                return
            await asyncio.sleep(LOOK_EVERY)

    def _end_page(self) -> bool:
        """End the process of the page that takes too much memory by itself; False where none does."""
        process, size = largest_page(self._chromium.pid)
        if size <= self._settings.memory:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
        return True


def _seen(task: "asyncio.Task[tuple[Tab, Context]]") -> None:
    if not task.cancelled():
        task.exception()  # looked at, though nobody may come for the tab
