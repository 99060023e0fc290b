"""A client for Tor's control port, a unix socket in its folder."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from shoal.core.tasks import watched

REPLY_TIMEOUT_SECONDS = 5.0  # for a reply
MAX_LINES = 10_000  # of one reply
EVENT = "650"

OnEvent = Callable[[str], None]


class ControlFailed(Exception):
    """Tor did not carry out a control command."""


class _ControlReply(NamedTuple):
    code: str
    lines: list[str]


class Control:
    """A connection to a control port: replies come in the order of the commands, events at any time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_event: OnEvent | None = None
    ) -> None:
        self._reader, self._writer, self._on_event = reader, writer, on_event
        self._waiting: deque[asyncio.Future[_ControlReply]] = deque()
        # Ends when Tor has closed the connection.
        self.reading = watched(asyncio.create_task(self._read()))

    @classmethod
    async def open(cls, socket: Path, cookie: Path, on_event: OnEvent | None = None) -> Self:
        """Connect, and authenticate with Tor's cookie; raises OSError or ControlFailed."""
        control = cls(*await asyncio.open_unix_connection(socket), on_event)
        try:
            await control.send_command(f"AUTHENTICATE {cookie.read_bytes().hex()}")
        except BaseException:
            await control.close()
            raise
        return control

    async def send_command(self, line: str) -> list[str]:
        """Send a command and return the lines of the reply, without their codes; raises ControlFailed."""
        verb = line.partition(" ")[0]
        if self.reading.done():
            raise ControlFailed(f"Tor closed the control connection before {verb}")
        future: asyncio.Future[_ControlReply] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._writer.write(f"{line}\r\n".encode())
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
                reply = await future
        except TimeoutError as error:
            raise ControlFailed(f"Tor did not reply to {verb} in {REPLY_TIMEOUT_SECONDS:g} s") from error
        if not reply.code.startswith("2"):
            raise ControlFailed(f"Tor rejected {verb}: {reply.code} {reply.lines[-1]}")
        return reply.lines

    async def info(self, key: str) -> str:
        """Return a value of GETINFO; raises ControlFailed."""
        for line in await self.send_command(f"GETINFO {key}"):
            name, equals, value = line.partition("=")
            if equals and name == key:
                return value
        raise ControlFailed(f"Tor did not report {key}")

    async def close(self) -> None:
        """Close the connection; a Tor that is owned through it exits."""
        self.reading.cancel()
        await asyncio.wait([self.reading])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                reply = await self._reply()
                if reply.code == EVENT:
                    if self._on_event:
                        self._on_event(reply.lines[0])
                elif self._waiting and not (future := self._waiting.popleft()).done():
                    future.set_result(reply)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ControlFailed):
            pass  # waiting commands fail below
        finally:
            for future in self._waiting:
                if not future.done():
                    future.set_exception(ControlFailed("Tor closed the control connection"))

    async def _reply(self) -> _ControlReply:
        lines: list[str] = []
        while len(lines) < MAX_LINES:
            line = await self._line()
            code, mark, text = line[:3], line[3:4], line[4:]
            lines.append(text)
            if mark == "+":
                lines += await self._data()
            elif mark != "-":
                return _ControlReply(code, lines)
        raise ControlFailed("Tor's reply does not end")

    async def _data(self) -> list[str]:
        found: list[str] = []
        while (line := await self._line()) != "." and len(found) < MAX_LINES:
            found.append(line.removeprefix("."))
        return found

    async def _line(self) -> str:
        return (await self._reader.readuntil(b"\r\n"))[:-2].decode(errors="replace")
