"""A Tor of our own: started, watched over, started again when it dies, and ended with us."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

from shoal.core.errors import TorDown
from shoal.core.exchange import Way
from shoal.core.model import MINUTE, SECOND
from shoal.core.tasks import watched
from shoal.fetch.tor.control import ControlFailed
from shoal.fetch.tor.folder import TorFolder
from shoal.fetch.tor.process import StartFailed, TorProcess
from shoal.fetch.tor.program import command, find_tor, torrc_text, verify, version_of

LONGEST_PAUSE = MINUTE  # before a Tor that keeps dying is started again
STEADY = MINUTE  # what a life must last so that its end counts as the first one
SHORTEST_WAIT, LONGEST_WAIT = SECOND, 30 * SECOND  # of a task, for Tor
PATIENCE = MINUTE / 2  # with a Tor that is not up, until somebody is told
TRIAL_EVERY = 10.0  # seconds, while Tor has no circuits and may not build one unless it is asked

log = logging.getLogger("shoal.fetch.tor")


class Tor:
    """Gives ways out to the network while it is up, and none while it is not."""

    def __init__(self, folder: TorFolder, start: list[str]) -> None:
        self._folder, self._start = folder, start
        self._process: TorProcess | None = None
        self._why, self.restarts = "it is starting", 0
        self._loop = asyncio.get_running_loop()
        self._since = self._next_trial = self._loop.time()
        self._is_up, self._has_warned = asyncio.Event(), False
        self._keeping = watched(asyncio.create_task(self._keep()))

    @classmethod
    async def open(cls, torrc: Path | None = None) -> Self:
        """Begin to start a Tor; `torrc` holds further lines for it. Raises InvalidSetting."""
        program, folder = find_tor(), TorFolder()
        try:
            return cls(folder, await _prepared(program, folder, torrc))
        except BaseException:
            folder.remove()
            raise

    @property
    def is_up(self) -> bool:
        """Whether pages can come through it now."""
        return self._process is not None and self._process.is_up

    @property
    def pid(self) -> int | None:
        """The id of its process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def folder(self) -> Path:
        """Where it keeps its data."""
        return self._folder.path

    def way(self, name: str) -> Way:
        """Return a way whose streams share circuits with no other name; raises TorDown."""
        process = self._process
        if process is None or not (process.is_up or self._may_try(process)):
            raise self.down()
        return Way(name="tor", url=f"socks5h://{name}:shoal@127.0.0.1:{process.port}")

    @property
    def says(self) -> str:
        """How far it has come, or why it ended."""
        if self._process:
            return f"it is at {self._process.progress} %: {self._process.doing}"
        return self._why

    def down(self) -> TorDown:
        """Return the error that says why nothing can be fetched now, and when to try again."""
        elapsed = timedelta(seconds=self._loop.time() - self._since)
        if elapsed > PATIENCE and not self._has_warned:
            self._has_warned = True
            log.warning(
                "tor is not up, and tasks wait for it seconds=%.0f reason=%s",
                elapsed.total_seconds(),
                self.says,
            )
        return TorDown(self.says, min(max(elapsed / 2, SHORTEST_WAIT), LONGEST_WAIT))

    async def answers(self) -> bool:
        """Tell whether Tor is alive and has circuits; one that does not answer is ended and started anew."""
        process = self._process
        if process is None:
            return False
        try:
            return await process.has_circuit_now() and process is self._process
        except ControlFailed:
            process.kill()
            return False

    async def until_up(self, within: timedelta) -> None:
        """Return when pages can come through it; raises TorDown."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._is_up.wait()
        except TimeoutError:
            raise self.down() from None

    async def renew(self) -> None:
        """Have Tor use none of its circuits for anything new."""
        with suppress(ControlFailed):
            if self._process:
                await self._process.ask("SIGNAL NEWNYM")

    async def close(self) -> None:
        """End Tor, and remove what it kept."""
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        self._folder.remove()

    def _may_try(self, process: TorProcess) -> bool:
        """Tell whether one request may go through a Tor that was up and has lost its circuits."""
        now = self._loop.time()
        if process.progress < 100 or now < self._next_trial:
            return False
        self._next_trial = now + TRIAL_EVERY
        return True

    async def _keep(self) -> None:
        failures = 0
        while True:
            began = self._loop.time()
            await self._live()
            lasted = timedelta(seconds=self._loop.time() - began)
            failures = 1 if lasted > STEADY else failures + 1
            pause = pause_before_start(failures)
            log.warning("tor died reason=%s again_in=%g", self._why, pause.total_seconds())
            self._since = self._loop.time()
            await asyncio.sleep(pause.total_seconds())
            self.restarts += 1

    async def _live(self) -> None:
        """Start a Tor, and be there until its end."""
        try:
            self._process = await TorProcess.start(self._start, self._folder.path, self._changed)
        except (StartFailed, OSError) as error:
            self._why = f"it did not start: {error}"
            return
        self._changed()
        try:
            await self._process.until_ended()
        finally:
            ended, self._process, self._why = self._process, None, "it has ended"
            self._is_up.clear()
            code = await asyncio.shield(ended.end())
            self._why = f"it ended with code {code}"

    def _changed(self) -> None:
        if self.is_up:
            self._is_up.set()
            self._has_warned = False
        elif self._is_up.is_set():
            self._is_up.clear()
            self._since = self._loop.time()


async def installed_tor(torrc: Path | None = None) -> str:
    """Return what there is to say of the Tor on this machine; raises InvalidSetting if it cannot be used."""
    program, folder = find_tor(), TorFolder()
    try:
        await _prepared(program, folder, torrc)
    finally:
        folder.remove()
    return f"version {await version_of(program)} at {program}"


async def _prepared(program: Path, folder: TorFolder, torrc: Path | None) -> list[str]:
    """Write down what Tor is told, have it checked, and return the command that starts it."""
    own, defaults = folder.path / "torrc", (torrc or folder.path / "defaults").absolute()
    own.write_text(torrc_text(folder.path, await version_of(program)))
    if torrc is None:
        defaults.touch()  # else Tor would take those of the system's own service
    await verify(program, own, defaults)
    return command(program, own, defaults)


def pause_before_start(failures: int) -> timedelta:
    """Return how long to wait before the next start, after so many lives that were short."""
    return min(SECOND * (1 << min(failures - 1, 10)), LONGEST_PAUSE)
