"""A page that is open in the browser, as a step sees it: `page.browser`."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from shoal.core.errors import FetchTimeout, InvalidInput
from shoal.core.text import shorten
from shoal.fetch.browser import scripts
from shoal.fetch.browser.cdp import CdpError
from shoal.fetch.browser.navigation import Navigation
from shoal.fetch.browser.tab import Tab

T = TypeVar("T")

DEFAULT_TIMEOUT = timedelta(seconds=10)  # default timeout


class LivePage:
    """One page in its tab. Every page that it navigates to follows the same rules as the first."""

    def __init__(self, tab: Tab, navigation: Navigation, on_release: Callable[[], object]) -> None:
        self._tab, self._navigation, self._on_release = tab, navigation, on_release
        self._is_released = False

    async def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise, as plain values."""
        return await self._within(self._tab.evaluate(script, gesture=True), None, "The script did not end")

    async def wait_for(self, selector: str, timeout: timedelta | float | None = None) -> None:
        """Wait until something matches a CSS selector; raises FetchTimeout."""
        text = f"Nothing matches {shorten(selector)!r}"
        await self._within(self._tab.wait_for_selector(selector), timeout, text)

    async def click(self, selector: str) -> None:
        """Click on the first match of a CSS selector, once there is one."""
        self._navigation.redirects = 0
        await self._act(selector, scripts.click(selector))

    async def fill(self, selector: str, text: str) -> None:
        """Type into the first match of a CSS selector, once there is one."""
        await self._act(selector, scripts.fill(selector, text))

    async def html(self) -> str:
        """Return the current HTML of the page."""
        max_bytes = self._navigation.limits.max_body
        return (await self._within(self._tab.html(max_bytes), None, "The page's HTML was not read")).decode()

    async def screenshot(self, path: str | Path | None = None, *, full: bool = False) -> bytes:
        """Return a screenshot of the viewport, or of the full page, as PNG; and write it to a file."""
        call = self._tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        image = b64decode((await self._within(call, None, "No screenshot was taken"))["data"])
        if path is not None:
            await asyncio.to_thread(Path(path).write_bytes, image)
        return image

    async def cookies(self) -> list[dict[str, Any]]:
        """Return the cookies that would be sent to the page's host."""
        reply = await self._within(self._tab.call("Network.getCookies"), None, "No cookies were read")
        if self._navigation.secrets:
            self._navigation.secrets.received(f"{one['name']}={one['value']}" for one in reply["cookies"])
        return list(reply["cookies"])

    def release(self) -> None:
        """Close the page; may be called more than once."""
        if not self._is_released:
            self._is_released = True
            self._on_release()

    async def _act(self, selector: str, script: str) -> None:
        await self.wait_for(selector)
        if not await self._within(self._tab.evaluate(script, gesture=True), None, "The page did not react"):
            raise FetchTimeout(f"The element that matched {shorten(selector)!r} is gone")

    async def _within(self, work: Awaitable[T], timeout: timedelta | float | None, text: str) -> T:
        if self._is_released:
            if asyncio.iscoroutine(work):
                work.close()
            raise InvalidInput("page.browser is closed once its step has ended; use it inside the step")
        limit = DEFAULT_TIMEOUT if timeout is None else timeout
        seconds = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
        try:
            async with asyncio.timeout(seconds):
                return await self._navigation.unless_failed(work)
        except TimeoutError as error:
            raise FetchTimeout(f"{text} within {seconds:g} s") from error
        except CdpError as error:
            raise self._tab.error_for(error) from error
