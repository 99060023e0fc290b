"""Chromium's process: how it is found and started, and that nothing of it is left behind."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import BrowserDown, BrowserMissing
from shoal.core.model import ZERO
from shoal.fetch.browser.cdp import CdpConnection, CdpError
from shoal.fetch.owned_folder import OwnedFolder

PAGE = os.sysconf("SC_PAGE_SIZE")
MAX_PROCESSES = 1_000  # processes of one browser

VARIABLE = "SHOAL_CHROMIUM"
# Debian's binary rather than its script, whose flags are meant for a desktop; and first the headless shell,
# which has no windows: it opens a new context in a third of the time.
PATHS = (
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
)
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PLAYWRIGHTS = ("chromium_headless_shell-*/*/*headless*shell", "chromium-*/*/chrome")
FOLDER = "shoal-browser-"
NO_NETWORK = "http://127.0.0.1:1"  # the proxy of a browser that must not reach the network
START_TIMEOUT = timedelta(seconds=30)
STOP_TIMEOUT = timedelta(seconds=5)
# The only shell command: it moves the pipes to the descriptors that Chromium expects.
REMAP = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "LD_LIBRARY_PATH")

_QUIET = (
    "Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions,"
    "AutofillServerCommunication,HttpsUpgrades,GlobalMediaControls,NetworkTimeServiceQuerying,"
    "CertificateTransparencyComponentUpdater,SegmentationPlatform,PreloadMediaEngagementData,"
    # Connections that no page requests, to the search engine; and a process for a page that may never come.
    "PreconnectToSearch,SpareRendererForSitePerProcess,"
    # Bodies that are read outside the page's own thread, where their size is not reported.
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
    "--no-startup-window",  # every page has its own context; the default one is not opened
    "--password-store=basic",
    "--use-mock-keychain",
    "--js-flags=--max-old-space-size=1024",
    f"--disable-features={_QUIET}",
)
# What has no flag, for a browser with windows; the headless shell needs none of it. Read at startup.
PREFERENCES = {
    "net": {"network_prediction_options": 2},  # never connect ahead of a page's own requests
    # A form from https to http is sent, as in the headless shell: there is no user to confirm it.
    "profile": {"mixed_forms_warnings": False},
    "search": {"suggest_enabled": False},
    "signin": {"allowed": False, "allowed_on_next_startup": False},
    "safebrowsing": {"enabled": False},
    "alternate_error_pages": {"enabled": False},
    "credentials_enable_service": False,
    "autofill": {"profile_enabled": False, "credit_card_enabled": False},
}


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants; empty if it is gone."""
    found: list[int] = []
    unseen = [pid]
    while unseen and len(found) < MAX_PROCESSES:
        one = unseen.pop()
        if Path(f"/proc/{one}").exists():
            found.append(one)
            unseen.extend(_children(one))
    return found


def memory_of(pid: int) -> int:
    """Return the private memory of a process and its descendants in bytes."""
    return sum(map(_private_bytes, process_tree(pid)))


def largest_page(pid: int) -> tuple[int, int]:
    """Return the renderer process that uses most memory, and its bytes; zeros without one."""
    sizes = {one: _private_bytes(one) for one in process_tree(pid) if _is_renderer(one)}
    largest = max(sizes, key=lambda one: sizes[one], default=0)
    return largest, sizes.get(largest, 0)


def _is_renderer(pid: int) -> bool:
    try:
        return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _children(pid: int) -> Iterator[int]:
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())
    except OSError:
        return


def _private_bytes(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE


def find_chromium(given: Path | None = None) -> Path:
    """Return the path of Chromium; raises BrowserMissing."""
    named = given or os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserMissing(f"There is no program at {named}")
        return Path(found)
    for path in _candidates():
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise BrowserMissing("No Chromium was found on this machine")


def _candidates() -> Iterator[Path]:
    yield from map(Path, PATHS)
    yield from (Path(found) for name in NAMES if (found := shutil.which(name)))
    root = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    for pattern in PLAYWRIGHTS:
        yield from sorted(Path(root).glob(pattern), reverse=True)


class Chromium:
    """One running browser."""

    def __init__(
        self, cdp: CdpConnection, transport: asyncio.SubprocessTransport, folder: OwnedFolder
    ) -> None:
        self.cdp, self._transport, self._folder = cdp, transport, folder
        self.pid = transport.get_pid()
        self.version: str = ""
        self.user_agent: str = ""

    async def kill(self) -> None:
        """End it and every process that it has started, and remove its files."""
        processes = process_tree(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for one in processes:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT.total_seconds()):
                await asyncio.shield(self.cdp.exited)
        self._transport.close()
        await asyncio.to_thread(self._folder.remove)


async def start_chromium(settings: BrowserSettings, *, proxy: str) -> Chromium:
    """Start a browser that reaches the network only through the proxy; raises BrowserMissing or CdpError."""
    program = find_chromium(settings.executable)
    folder = await asyncio.to_thread(_make_folder)
    words = [*FLAGS, *_flags_for(settings, proxy), f"--user-data-dir={folder.path}"]
    transport, cdp = await asyncio.get_running_loop().subprocess_exec(
        CdpConnection,
        "/bin/sh",
        "-c",
        REMAP,
        "sh",
        str(program),
        *words,
        stderr=asyncio.subprocess.DEVNULL,
        # Its own process group: Ctrl-C in the terminal does not reach it, and it can be killed as one.
        start_new_session=True,
        env=_environment(folder.path),
    )
    chromium = Chromium(cdp, transport, folder)
    try:
        async with asyncio.timeout(START_TIMEOUT.total_seconds()):
            facts = await cdp.call("Browser.getVersion")
        chromium.version, chromium.user_agent = facts["product"], facts["userAgent"]
    except BaseException as error:
        await asyncio.shield(chromium.kill())
        if isinstance(error, (CdpError, TimeoutError)):
            raise CdpError(
                f"{program} does not start. See why: {program} --headless --dump-dom about:blank"
            ) from error
        raise
    return chromium


async def installed_chromium(settings: BrowserSettings) -> str:
    """Start it once and return its version; raises BrowserMissing, and BrowserDown if it does not start."""
    program = find_chromium(settings.executable)
    try:
        chromium = await start_chromium(settings, proxy=NO_NETWORK)
    except CdpError as error:
        raise BrowserDown(str(error), ZERO) from error
    await chromium.kill()
    without = " without its sandbox, because this is root" if os.geteuid() == 0 else ""
    return f"{chromium.version} at {program} starts{without}"


def _make_folder() -> OwnedFolder:
    folder = OwnedFolder(FOLDER)
    (folder.path / "Default").mkdir()
    (folder.path / "Default" / "Preferences").write_text(json.dumps(PREFERENCES))
    return folder


def _flags_for(settings: BrowserSettings, proxy: str) -> Iterator[str]:
    yield f"--proxy-server={proxy}"
    yield "--proxy-bypass-list=<-loopback>"  # not even this machine is reached directly
    if os.geteuid() == 0:
        yield "--no-sandbox"  # which does not work as root; for all other users it stays
    if "images" in settings.block:
        yield "--blink-settings=imagesEnabled=false"
    if "fonts" in settings.block:
        yield "--disable-remote-fonts"


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables it may see: others hold secrets, and pages are hostile."""
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    return passed | {"HOME": str(folder), "TMPDIR": str(folder)}
