"""One Tor process, from its start to its end."""

import asyncio
import logging
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

from shoal.core.tasks import watched
from shoal.fetch.tor.control import Control, ControlFailed
from shoal.fetch.tor.program import failure_reason

START_TIMEOUT = timedelta(seconds=30)  # until Tor opens its control socket
STOP_TIMEOUT = timedelta(seconds=5)  # until it exits on request
CONNECT_INTERVAL = timedelta(seconds=0.02)
MAX_WARNINGS = 20  # of one process that are logged
MAX_LINE = 1 << 16
_PROGRESS = re.compile(r'BOOTSTRAP PROGRESS=(\d+)(?:.*?SUMMARY="([^"]*)")?(?:.*?WARNING="([^"]*)")?')
_WARNED = re.compile(r"\[(?:warn|err)\] (.*)")

log = logging.getLogger("shoal.fetch.tor")


class StartFailed(Exception):
    """Tor did not start."""


class TorProcess:
    """A running Tor, which ends when we do, however we end."""

    def __init__(self, process: Process, on_change: Callable[[], None]) -> None:
        self._process, self._on_change = process, on_change
        self._control: Control | None = None
        self._lines: deque[str] = deque(maxlen=20)
        self._warnings: set[str] = set()
        self._output_reader = watched(asyncio.create_task(self._read_output()))
        self.port = 0
        self.progress, self.activity = 0, "Starting"
        self.has_circuits = False

    @classmethod
    async def start(cls, command: Sequence[str], folder: Path, on_change: Callable[[], None]) -> Self:
        """Start a Tor and take ownership; raises StartFailed. It has no circuits yet."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            limit=MAX_LINE,
            start_new_session=True,  # Ctrl-C in the terminal must not reach Tor
        )
        tor = cls(process, on_change)
        try:
            await tor._take_ownership(folder / "control", folder / "cookie")
        except (ControlFailed, OSError, TimeoutError, ValueError) as error:
            await tor.stop()
            raise StartFailed(failure_reason("\n".join(tor._lines)) if tor._lines else str(error)) from error
        except BaseException:
            await tor.stop()
            raise
        return tor

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it can carry requests."""
        return self.progress == 100 and self.has_circuits

    async def send_command(self, line: str) -> list[str]:
        """Send a control command; raises ControlFailed."""
        if self._control is None:
            raise ControlFailed("Tor is not connected")
        return await self._control.send_command(line)

    async def has_circuit_now(self) -> bool:
        """Tell whether Tor has a circuit; raises ControlFailed when it does not reply."""
        return (await self.send_command("GETINFO status/circuit-established"))[0].endswith("=1")

    async def wait_until_ended(self) -> None:
        """Return when Tor has exited or closed the control connection."""
        assert self._control is not None
        exited = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait([exited, self._control.reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            exited.cancel()

    def kill(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> int | None:
        """Stop the process, and return its exit code."""
        if self._control:
            await self._control.close()  # which stops a Tor that is owned
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT.total_seconds()):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await asyncio.wait([self._output_reader], timeout=1.0)  # its last lines
        self._output_reader.cancel()
        return self._process.returncode

    async def _take_ownership(self, socket: Path, cookie: Path) -> None:
        async with asyncio.timeout(START_TIMEOUT.total_seconds()):
            self._control = await self._connect(socket, cookie)
        await self._control.send_command("TAKEOWNERSHIP")
        listeners = await self._control.info("net/listeners/socks")
        self.port = int(listeners.strip('"').rpartition(":")[2])
        await self._control.send_command("SETEVENTS STATUS_CLIENT")
        self._on_event(await self._control.info("status/bootstrap-phase"))
        log.info("tor started pid=%d port=%d", self.pid, self.port)

    async def _connect(self, socket: Path, cookie: Path) -> Control:
        while True:
            if self._process.returncode is not None:
                await asyncio.wait([self._output_reader], timeout=1.0)
                raise ControlFailed(f"it ended with code {self._process.returncode}")
            try:
                return await Control.open(socket, cookie, self._on_event)
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(CONNECT_INTERVAL.total_seconds())

    def _on_event(self, event: str) -> None:
        was_up = self.is_up
        if found := _PROGRESS.search(event):
            self.progress, self.activity = int(found[1]), found[3] or found[2] or self.activity
            self.has_circuits = self.has_circuits or self.progress == 100
        elif "CIRCUIT_NOT_ESTABLISHED" in event:
            self.has_circuits = False
        elif "CIRCUIT_ESTABLISHED" in event:
            self.has_circuits = True
        if self.is_up != was_up:
            log.info("tor is up" if self.is_up else "tor has no circuits")
            self._on_change()

    async def _read_output(self) -> None:
        """Keep the last lines that Tor writes, and log its warnings."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                continue  # a line that is too long
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            if found := _WARNED.search(text):
                self._warn(found[1])

    def _warn(self, text: str) -> None:
        if text not in self._warnings and len(self._warnings) < MAX_WARNINGS:
            self._warnings.add(text)
            log.info("tor warning message=%s", text)
