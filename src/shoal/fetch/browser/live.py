"""A page that is open in the browser, as a step sees it: `page.browser`."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from shoal.core.errors import FetchTimeout, InvalidInput, shorten
from shoal.fetch.browser import scripts
from shoal.fetch.browser.tab import Tab
from shoal.fetch.browser.visit import Visit
from shoal.fetch.browser.wire import WireFailed

T = TypeVar("T")

PATIENCE = timedelta(seconds=10)  # for something to appear, where nothing else is said


class LivePage:
    """One page in its tab. Every page that it leads to is asked for by the same rules as the first."""

    def __init__(self, tab: Tab, visit: Visit, on_let_go: Callable[[], None]) -> None:
        self._tab, self._visit, self._on_let_go = tab, visit, on_let_go
        self._is_gone = False

    async def evaluate(self, script: str) -> Any:
        """Return what a JavaScript expression gives, awaited if it is a promise, as plain values."""
        return await self._within(self._tab.evaluate(script, gesture=True), None, "The script did not end")

    async def wait_for(self, selector: str, timeout: timedelta | float | None = None) -> None:
        """Wait until something matches a CSS selector; raises FetchTimeout."""
        text = f"Nothing matches {shorten(selector)!r}"
        await self._within(self._tab.appears(selector), timeout, text)

    async def click(self, selector: str) -> None:
        """Click on the first match of a CSS selector, once there is one."""
        self._visit.led = 0
        await self._act(selector, scripts.click(selector))

    async def fill(self, selector: str, text: str) -> None:
        """Write into the first match of a CSS selector, once there is one."""
        await self._act(selector, scripts.fill(selector, text))

    async def html(self) -> str:
        """Return the page as it stands now."""
        most = self._visit.limits.max_body
        return (await self._within(self._tab.html(most), None, "The page was not told")).decode()

    async def screenshot(self, path: str | Path | None = None, *, full: bool = False) -> bytes:
        """Return a picture of what is to be seen, or of the full page, as PNG; and write it to a file."""
        shot = self._tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        picture = b64decode((await self._within(shot, None, "No picture was taken"))["data"])
        if path is not None:
            await asyncio.to_thread(Path(path).write_bytes, picture)
        return picture

    async def cookies(self) -> list[dict[str, Any]]:
        """Return the cookies that the page's host would be told."""
        answer = await self._within(self._tab.call("Network.getCookies"), None, "No cookies were told")
        if self._visit.secrets:
            self._visit.secrets.received(f"{one['name']}={one['value']}" for one in answer["cookies"])
        return list(answer["cookies"])

    def let_go(self) -> None:
        """Close the page; it may be told more than once."""
        if not self._is_gone:
            self._is_gone = True
            self._on_let_go()

    async def _act(self, selector: str, script: str) -> None:
        await self.wait_for(selector)
        if not await self._within(self._tab.evaluate(script, gesture=True), None, "The page did not react"):
            raise FetchTimeout(f"What matched {shorten(selector)!r} is gone")

    async def _within(self, work: Awaitable[T], timeout: timedelta | float | None, text: str) -> T:
        if self._is_gone:
            if asyncio.iscoroutine(work):
                work.close()
            raise InvalidInput("page.browser is gone once its step has ended; use it inside the step")
        limit = PATIENCE if timeout is None else timeout
        seconds = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
        try:
            async with asyncio.timeout(seconds):
                return await self._visit.unless_failed(work)
        except TimeoutError as error:
            raise FetchTimeout(f"{text} within {seconds:g} s") from error
        except WireFailed as error:
            raise self._tab.broken(error) from error
