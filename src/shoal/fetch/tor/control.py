"""Talking to a Tor process over its control port, a unix socket in its folder."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from shoal.core.tasks import watched

PATIENCE = 5.0  # seconds for an answer
MOST_LINES = 10_000  # of one answer
EVENT = "650"

OnEvent = Callable[[str], None]


class ControlFailed(Exception):
    """Tor did not do what it was asked over its control port."""


class _Reply(NamedTuple):
    code: str
    lines: list[str]


class Control:
    """A connection to a control port: questions are answered in their order, and events told as they come."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_event: OnEvent | None = None
    ) -> None:
        self._reader, self._writer, self._on_event = reader, writer, on_event or _ignore
        self._waiting: deque[asyncio.Future[_Reply]] = deque()
        self._reading = watched(asyncio.create_task(self._read()))

    @classmethod
    async def open(cls, socket: Path, cookie: Path, on_event: OnEvent | None = None) -> Self:
        """Connect, and show that we may read Tor's cookie; raises OSError or ControlFailed."""
        control = cls(*await asyncio.open_unix_connection(socket), on_event)
        try:
            await control.ask(f"AUTHENTICATE {cookie.read_bytes().hex()}")
        except BaseException:
            await control.close()
            raise
        return control

    async def ask(self, line: str) -> list[str]:
        """Return the lines of the answer, without their codes; raises ControlFailed."""
        verb = line.partition(" ")[0]
        if self._reading.done():
            raise ControlFailed(f"Tor has hung up before {verb}")
        answer: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._writer.write(f"{line}\r\n".encode())
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await answer
        except TimeoutError as error:
            raise ControlFailed(f"Tor did not answer {verb} in {PATIENCE:g} s") from error
        if not reply.code.startswith("2"):
            raise ControlFailed(f"Tor refused {verb}: {reply.code} {reply.lines[-1]}")
        return reply.lines

    async def info(self, key: str) -> str:
        """Return one of the things that Tor knows; raises ControlFailed."""
        for line in await self.ask(f"GETINFO {key}"):
            name, equals, value = line.partition("=")
            if equals and name == key:
                return value
        raise ControlFailed(f"Tor did not say {key}")

    async def until_closed(self) -> None:
        """Return when Tor has hung up."""
        await asyncio.wait([self._reading])

    async def close(self) -> None:
        """Hang up; a Tor that is owned through this connection ends."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                reply = await self._reply()
                if reply.code == EVENT:
                    self._on_event(reply.lines[0])
                elif self._waiting and not (answer := self._waiting.popleft()).done():
                    answer.set_result(reply)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ControlFailed):
            pass  # whoever waits is told below
        finally:
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ControlFailed("Tor has hung up"))

    async def _reply(self) -> _Reply:
        lines: list[str] = []
        while len(lines) < MOST_LINES:
            line = await self._line()
            code, mark, text = line[:3], line[3:4], line[4:]
            lines.append(text)
            if mark == "+":
                lines += await self._data()
            elif mark != "-":
                return _Reply(code, lines)
        raise ControlFailed("Tor's answer has no end")

    async def _data(self) -> list[str]:
        found: list[str] = []
        while (line := await self._line()) != "." and len(found) < MOST_LINES:
            found.append(line.removeprefix("."))
        return found

    async def _line(self) -> str:
        return (await self._reader.readuntil(b"\r\n"))[:-2].decode(errors="replace")


def _ignore(event: str) -> None:
    """Nobody listens."""
