"""A real Chromium with one window to look at pages with."""

import asyncio
import os
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.core.errors import BrowserMissing
from shoal.fetch.browser.chromium import FLAGS, REMAP, find_chromium, remove
from shoal.fetch.browser.wire import Event, Wire
from tests.servers.process import ServerMissing

PATIENCE = 30.0  # seconds
POLL = 0.02


class Window:
    """One tab, which remembers what its pages complained of."""

    def __init__(self, wire: Wire, session: str) -> None:
        self.wire, self._session = wire, session
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []
        self.asked: list[str] = []  # every address that its pages asked
        wire.listen(session, self._hear)

    async def prepare(self) -> None:
        """Make it tell what happens in it."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def call(self, method: str, /, **params: Any) -> Event:
        """Ask the browser for something in this tab."""
        async with asyncio.timeout(PATIENCE):
            return await self.wire.call(method, self._session, **params)

    async def open(self, url: str) -> None:
        """Go to a page and wait until it has loaded."""
        self._loaded.clear()
        answer = await self.call("Page.navigate", url=url)
        assert not answer.get("errorText"), (url, answer)
        async with asyncio.timeout(PATIENCE):
            await self._loaded.wait()

    async def does(self, script: str) -> Any:
        """Return what a script gives."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until a script gives something true."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.does(script)):
                await asyncio.sleep(POLL)
        return found

    async def follow(self, script: str) -> None:
        """Do what leads to another page, and wait until that has loaded."""
        self._loaded.clear()
        await self.does(script)
        async with asyncio.timeout(PATIENCE):
            await self._loaded.wait()

    async def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Have pages see a screen of this width, in light or dark."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def photograph(self, file: Path) -> None:
        """Write a picture of the whole page."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(b64decode(shot["data"]))

    def _hear(self, method: str, params: Event, size: int) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                entry = params["entry"]
                self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
            case _:
                pass


def find_browser() -> Path:
    """Return where Chromium is; raises ServerMissing."""
    try:
        return find_chromium()
    except BrowserMissing as error:
        raise ServerMissing("chromium-headless-shell") from error


@asynccontextmanager
async def chromium() -> AsyncIterator[Wire]:
    """Start a browser that may ask this machine only, and end it."""
    program = find_browser()
    folder = Path(tempfile.mkdtemp(prefix="shoal-web-"))
    flags = [*FLAGS, f"--user-data-dir={folder}", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    transport, wire = await asyncio.get_running_loop().subprocess_exec(
        Wire,
        *("/bin/sh", "-c", REMAP, "sh", str(program), *flags),
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await wire.call("Browser.getVersion")
        yield wire
    finally:
        await asyncio.wait([wire.call("Browser.close")], timeout=5)
        await asyncio.wait([wire.exited], timeout=5)
        transport.close()
        await asyncio.to_thread(remove, folder)


async def window(wire: Wire) -> Window:
    """Open a window of its own, with no cookies."""
    context = await wire.call("Target.createBrowserContext")
    target = await wire.call(
        "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
    )
    attached = await wire.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    made = Window(wire, attached["sessionId"])
    await made.prepare()
    return made
