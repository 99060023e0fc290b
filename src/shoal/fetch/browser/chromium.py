"""Chromium's process: where it is found, how it is started, and that nothing is left of it."""

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from shoal.core.browsing import BrowserSettings
from shoal.core.errors import BrowserDown, BrowserMissing
from shoal.core.model import ZERO
from shoal.fetch.browser.memory import family
from shoal.fetch.browser.wire import Wire, WireFailed

VARIABLE = "SHOAL_CHROMIUM"
# Debian's own file rather than its script, whose flags are meant for a person's desktop; and first the shell,
# which has no windows: it opens a fresh context in a third of the time.
PLACES = (
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
)
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PLAYWRIGHTS = ("chromium_headless_shell-*/*/*headless*shell", "chromium-*/*/chrome")
FOLDER = "shoal-browser-"
NOWHERE = "http://127.0.0.1:1"  # the proxy of a browser that is to ask nobody
START = 30.0  # seconds
END = 5.0
# No shell but this line: it moves the pipes to where Chromium looks for them.
REMAP = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "LD_LIBRARY_PATH")

_QUIET = (
    "Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions,"
    "AutofillServerCommunication,HttpsUpgrades,GlobalMediaControls,NetworkTimeServiceQuerying,"
    "CertificateTransparencyComponentUpdater,SegmentationPlatform,PreloadMediaEngagementData,"
    # Connections that no page asks for, to the search engine; and a process for a page that may never come.
    "PreconnectToSearch,SpareRendererForSitePerProcess,"
    # Bodies that are read beside the page's own thread, where nobody tells how large they become.
    "ScriptStreaming,BackgroundResourceFetch"
)
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-back-forward-cache",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--window-size=1280,800",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-service-autorun",
    "--no-startup-window",  # every page has a context of its own; that of a person is not opened
    "--password-store=basic",
    "--use-mock-keychain",
    "--js-flags=--max-old-space-size=1024",
    f"--disable-features={_QUIET}",
)
# What no flag can say, for a browser with windows; the shell does none of it. Chromium reads it at its start.
PREFERENCES = {
    "net": {"network_prediction_options": 2},  # never connect ahead of a page's own questions
    # A form from https to http is sent, as the shell does: nobody is there to agree to it.
    "profile": {"mixed_forms_warnings": False},
    "search": {"suggest_enabled": False},
    "signin": {"allowed": False, "allowed_on_next_startup": False},
    "safebrowsing": {"enabled": False},
    "alternate_error_pages": {"enabled": False},
    "credentials_enable_service": False,
    "autofill": {"profile_enabled": False, "credit_card_enabled": False},
}


def find_chromium(given: Path | None = None) -> Path:
    """Return where Chromium is; raises BrowserMissing."""
    named = given or os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserMissing(f"There is no program at {named}")
        return Path(found)
    for path in _places():
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise BrowserMissing("No Chromium was found on this machine")


def _places() -> Iterator[Path]:
    yield from map(Path, PLACES)
    yield from (Path(found) for name in NAMES if (found := shutil.which(name)))
    root = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    for pattern in PLAYWRIGHTS:
        yield from sorted(Path(root).glob(pattern), reverse=True)


class Chromium:
    """One running browser."""

    def __init__(self, wire: Wire, transport: asyncio.SubprocessTransport, folder: Path) -> None:
        self.wire, self._transport, self._folder = wire, transport, folder
        self.pid = transport.get_pid()
        self.version: str = ""
        self.user_agent: str = ""

    async def greet(self) -> None:
        """Wait until it answers; raises WireFailed or TimeoutError."""
        async with asyncio.timeout(START):
            facts = await self.wire.call("Browser.getVersion")
        self.version, self.user_agent = facts["product"], facts["userAgent"]

    async def kill(self) -> None:
        """End it and every process that it has started, and remove what it wrote."""
        processes = family(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for one in processes:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(END):
                await asyncio.shield(self.wire.exited)
        self._transport.close()
        await asyncio.to_thread(remove, self._folder)


async def start_chromium(settings: BrowserSettings, *, proxy: str) -> Chromium:
    """Start a browser that knows no way to the network but the proxy; raises BrowserMissing or WireFailed."""
    program = find_chromium(settings.executable)
    await asyncio.to_thread(sweep)
    folder = await asyncio.to_thread(_make_folder)
    words = [*FLAGS, *_own_flags(settings, proxy), f"--user-data-dir={folder}"]
    transport, wire = await asyncio.get_running_loop().subprocess_exec(
        Wire,
        "/bin/sh",
        "-c",
        REMAP,
        "sh",
        str(program),
        *words,
        stderr=asyncio.subprocess.DEVNULL,
        # A group of its own: Ctrl-C in the terminal is not for it, and its group can be ended as one.
        start_new_session=True,
        env=_environment(folder),
    )
    chromium = Chromium(wire, transport, folder)
    try:
        await chromium.greet()
    except BaseException as error:
        await asyncio.shield(chromium.kill())
        if isinstance(error, (WireFailed, TimeoutError)):
            raise WireFailed(
                f"{program} does not start. See why: {program} --headless --dump-dom about:blank"
            ) from error
        raise
    return chromium


async def installed_chromium(settings: BrowserSettings) -> str:
    """Start it once and say what it is; raises BrowserMissing, and BrowserDown if it does not start."""
    program = find_chromium(settings.executable)
    try:
        chromium = await start_chromium(settings, proxy=NOWHERE)
    except WireFailed as error:
        raise BrowserDown(str(error), ZERO) from error
    await chromium.kill()
    without = " without its sandbox, because this is root" if os.geteuid() == 0 else ""
    return f"{chromium.version} at {program} starts{without}"


def _make_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
    (folder / "Default").mkdir()
    (folder / "Default" / "Preferences").write_text(json.dumps(PREFERENCES))
    return folder


def _own_flags(settings: BrowserSettings, proxy: str) -> Iterator[str]:
    yield f"--proxy-server={proxy}"
    yield "--proxy-bypass-list=<-loopback>"  # not even this machine is asked directly
    if os.geteuid() == 0:
        yield "--no-sandbox"  # which does not work for root; for everybody else it stays
    if "images" in settings.block:
        yield "--blink-settings=imagesEnabled=false"
    if "fonts" in settings.block:
        yield "--disable-remote-fonts"


def _environment(folder: Path) -> dict[str, str]:
    """Return what it may know of ours: other variables hold secrets, and pages are hostile."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {"HOME": str(folder), "TMPDIR": str(folder)}


def sweep() -> None:
    """Remove what browsers left behind whose workers were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        owner = left.name.removeprefix(FOLDER).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            remove(left)


def remove(folder: Path, tries: Iterable[int] = range(3)) -> None:
    """Remove a folder that somebody may still write to."""
    for _ in tries:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
