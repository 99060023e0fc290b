"""A real Chromium, and tabs in it."""

import asyncio
import os
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.core.errors import BrowserMissing
from shoal.fetch.browser.cdp import CdpConnection, Event
from shoal.fetch.browser.process import FLAGS, REMAP, find_chromium
from shoal.fetch.owned_folder import OwnedFolder
from tests.servers.process import ServerMissing

TIMEOUT = 100.0  # seconds: on a busy machine a large page takes its time
POLL = 0.02


class BrowserTab:
    """One tab, which records errors and requests of its pages."""

    def __init__(self, wire: CdpConnection, session: str) -> None:
        self.wire, self._session = wire, session
        self._loaded = asyncio.Event()
        self.errors: list[str] = []
        self.requested: list[str] = []  # every URL that its pages requested
        wire.listen(session, self._on_event)

    async def prepare(self) -> None:
        """Enable the events that are recorded."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def call(self, method: str, /, **params: Any) -> Event:
        """Call a CDP method in this tab."""
        async with asyncio.timeout(TIMEOUT):
            return await self.wire.call(method, self._session, **params)

    async def open(self, url: str) -> None:
        """Open a page and wait until it has loaded."""
        self._loaded.clear()
        response = await self.call("Page.navigate", url=url)
        assert not response.get("errorText"), (url, response)
        async with asyncio.timeout(TIMEOUT):
            await self._loaded.wait()

    async def evaluate(self, script: str) -> Any:
        """Return the value of a script."""
        response = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in response, response["exceptionDetails"]
        return response["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until a script returns a true value."""
        async with asyncio.timeout(TIMEOUT):
            while not (found := await self.evaluate(script)):
                await asyncio.sleep(POLL)
        return found

    async def follow(self, script: str) -> None:
        """Run a script that navigates, and wait until the new page has loaded."""
        self._loaded.clear()
        await self.evaluate(script)
        async with asyncio.timeout(TIMEOUT):
            await self._loaded.wait()

    async def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Emulate a screen of this size, in light or dark mode."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self, file: Path) -> None:
        """Save a screenshot of the whole page."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(b64decode(shot["data"]))

    def _on_event(self, method: str, params: Event, size: int) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                entry = params["entry"]
                self.errors.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
            case _:
                pass


def find_browser() -> Path:
    """Return the path of Chromium; raises ServerMissing."""
    try:
        return find_chromium()
    except BrowserMissing as error:
        raise ServerMissing("chromium-headless-shell") from error


@asynccontextmanager
async def chromium() -> AsyncIterator[CdpConnection]:
    """Run a browser that can only reach this machine."""
    program = find_browser()
    folder = OwnedFolder("shoal-web-")
    flags = [*FLAGS, f"--user-data-dir={folder.path}"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    transport, wire = await asyncio.get_running_loop().subprocess_exec(
        CdpConnection,
        *("/bin/sh", "-c", REMAP, "sh", str(program), *flags),
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            await wire.call("Browser.getVersion")
        yield wire
    finally:
        await asyncio.wait([wire.call("Browser.close")], timeout=5)
        await asyncio.wait([wire.exited], timeout=5)
        transport.close()
        await asyncio.to_thread(folder.remove)


async def open_tab(wire: CdpConnection) -> BrowserTab:
    """Open a tab in a new browser context, without cookies."""
    context = await wire.call("Target.createBrowserContext")
    target = await wire.call(
        "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
    )
    attached = await wire.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    made = BrowserTab(wire, attached["sessionId"])
    await made.prepare()
    return made
