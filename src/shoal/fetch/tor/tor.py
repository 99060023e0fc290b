"""A worker's own Tor: started, supervised, restarted when it dies, and stopped with the worker."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

from shoal.core.errors import TorDown
from shoal.core.http import Proxy
from shoal.core.model import MINUTE, SECOND
from shoal.core.tasks import watched
from shoal.fetch.owned_folder import OwnedFolder
from shoal.fetch.tor.control import ControlFailed
from shoal.fetch.tor.process import StartFailed, TorProcess
from shoal.fetch.tor.program import command, find_tor, torrc_text, verify, version_of

PREFIX = "shoal-tor-"

MAX_PAUSE = MINUTE  # before a Tor that keeps dying is restarted
STEADY_UPTIME = MINUTE  # uptime after which the next death counts as the first one
MIN_WAIT, MAX_WAIT = SECOND, 30 * SECOND  # of a task, for Tor
WARN_AFTER = MINUTE / 2  # downtime until a warning is logged
TRIAL_INTERVAL_SECONDS = 10.0  # while Tor has no circuits and may build one only for a request

log = logging.getLogger("shoal.fetch.tor")


class Tor:
    """Provides proxies while Tor is up, and none while it is not."""

    def __init__(self, folder: OwnedFolder, start: list[str]) -> None:
        self._folder, self._start = folder, start
        self._process: TorProcess | None = None
        self._down_reason, self.restarts = "it is starting", 0
        self._loop = asyncio.get_running_loop()
        self._since = self._next_trial = self._loop.time()
        self._is_up, self._has_warned = asyncio.Event(), False
        self._supervising = watched(asyncio.create_task(self._supervise()))

    @classmethod
    async def open(cls, torrc: Path | None = None) -> Self:
        """Begin to start a Tor; `torrc` holds further lines for it. Raises InvalidSetting."""
        program, folder = find_tor(), OwnedFolder(PREFIX)
        try:
            return cls(folder, await _prepare(program, folder, torrc))
        except BaseException:
            folder.remove()
            raise

    @property
    def is_up(self) -> bool:
        """Whether it can carry requests now."""
        return self._process is not None and self._process.is_up

    @property
    def pid(self) -> int | None:
        """The id of its process, if one runs."""
        return self._process.pid if self._process else None

    def proxy(self, name: str) -> Proxy:
        """Return a proxy whose streams share circuits with no other name; raises TorDown."""
        process = self._process
        if process is None or not (process.is_up or self._may_try_request(process)):
            raise self.down()
        return Proxy(name="tor", url=f"socks5h://{name}:shoal@127.0.0.1:{process.port}")

    @property
    def status_text(self) -> str:
        """Its startup progress, or why it exited."""
        if self._process:
            return f"it is at {self._process.progress} %: {self._process.activity}"
        return self._down_reason

    def down(self) -> TorDown:
        """Return the error that says why nothing can be fetched now, and when to try again."""
        elapsed = timedelta(seconds=self._loop.time() - self._since)
        if elapsed > WARN_AFTER and not self._has_warned:
            self._has_warned = True
            log.warning(
                "tor is not up, and tasks wait for it seconds=%.0f reason=%s",
                elapsed.total_seconds(),
                self.status_text,
            )
        return TorDown(self.status_text, min(max(elapsed / 2, MIN_WAIT), MAX_WAIT))

    async def is_working(self) -> bool:
        """Tell whether Tor is alive and has circuits; one that does not reply is killed and restarted."""
        process = self._process
        if process is None:
            return False
        try:
            return await process.has_circuit_now() and process is self._process
        except ControlFailed:
            process.kill()
            return False

    async def wait_until_up(self, within: timedelta) -> None:
        """Return when Tor can carry requests; raises TorDown."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._is_up.wait()
        except TimeoutError:
            raise self.down() from None

    async def renew(self) -> None:
        """Make Tor use new circuits for new streams."""
        with suppress(ControlFailed):
            if self._process:
                await self._process.send_command("SIGNAL NEWNYM")

    async def close(self) -> None:
        """Stop Tor, and remove its folder."""
        self._supervising.cancel()
        await asyncio.wait([self._supervising])
        self._folder.remove()

    def _may_try_request(self, process: TorProcess) -> bool:
        """Tell whether one request may go through a Tor that was up and has lost its circuits."""
        now = self._loop.time()
        if process.progress < 100 or now < self._next_trial:
            return False
        self._next_trial = now + TRIAL_INTERVAL_SECONDS
        return True

    async def _supervise(self) -> None:
        failures = 0
        while True:
            began = self._loop.time()
            await self._run_once()
            lasted = timedelta(seconds=self._loop.time() - began)
            failures = 1 if lasted > STEADY_UPTIME else failures + 1
            pause = pause_before_start(failures)
            log.warning("tor died reason=%s restart_in=%g", self._down_reason, pause.total_seconds())
            self._since = self._loop.time()
            await asyncio.sleep(pause.total_seconds())
            self.restarts += 1

    async def _run_once(self) -> None:
        """Start a Tor, and wait until it ends."""
        try:
            self._process = await TorProcess.start(self._start, self._folder.path, self._on_change)
        except (StartFailed, OSError) as error:
            self._down_reason = f"it did not start: {error}"
            return
        self._on_change()
        try:
            await self._process.wait_until_ended()
        finally:
            ended, self._process, self._down_reason = self._process, None, "it has ended"
            self._is_up.clear()
            code = await asyncio.shield(ended.stop())
            self._down_reason = f"it ended with code {code}"

    def _on_change(self) -> None:
        if self.is_up:
            self._is_up.set()
            self._has_warned = False
        elif self._is_up.is_set():
            self._is_up.clear()
            self._since = self._loop.time()


async def installed_tor(torrc: Path | None = None) -> str:
    """Return the version and path of the Tor on this machine; raises InvalidSetting if it cannot be used."""
    program, folder = find_tor(), OwnedFolder(PREFIX)
    try:
        await _prepare(program, folder, torrc)
    finally:
        folder.remove()
    return f"version {await version_of(program)} at {program}"


async def _prepare(program: Path, folder: OwnedFolder, torrc: Path | None) -> list[str]:
    """Write the configuration, have it checked, and return the command that starts Tor."""
    (folder.path / "data").mkdir(mode=0o700)
    own, defaults = folder.path / "torrc", (torrc or folder.path / "defaults").absolute()
    own.write_text(torrc_text(folder.path, await version_of(program)))
    if torrc is None:
        defaults.touch()  # else Tor would use those of the system's own service
    await verify(program, own, defaults)
    return command(program, own, defaults)


def pause_before_start(failures: int) -> timedelta:
    """Return how long to wait before the next start, after this many short runs."""
    return min(SECOND * (1 << min(failures - 1, 10)), MAX_PAUSE)
