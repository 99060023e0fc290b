"""A web server that sends the bytes a test sets, and records its requests."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

LONGEST_HEAD = 1 << 20


@dataclass
class Asked:
    """One request as it was received."""

    line: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]


@dataclass
class Wire:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: Asked

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection with a reset, not with a FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Wait until the client closes the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass


Reply = Callable[[Wire], Awaitable[None]]


@dataclass
class Origin:
    """A server on loopback; a reply of bytes keeps the connection, a reply by function ends it."""

    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _replies: dict[str, bytes | Reply] = field(default_factory=dict)

    def on(self, path: str, reply: bytes | Reply) -> str:
        """Set the reply of a path; return its URL."""
        self._replies[path] = reply
        return self.url(path)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.asked]

    async def __aenter__(self) -> Self:
        self._visits: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(
            self._greet, "127.0.0.1", 0, ssl=self.tls, limit=LONGEST_HEAD
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # in which transports are closed

    def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        visit = asyncio.create_task(self._visit(reader, writer))
        self._visits.add(visit)
        visit.add_done_callback(lambda done: self._end(done, writer))

    def _end(self, visit: "asyncio.Task[None]", writer: asyncio.StreamWriter) -> None:
        # Not in the handler: a task that is cancelled before it starts closes nothing.
        self._visits.discard(visit)
        writer.close()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass  # the client has disconnected
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = _read(await reader.readuntil(b"\r\n\r\n"))
        self.asked.append(asked)
        reply = self._replies.get(asked.path.partition("?")[0], page(b"", status="404 Not Found"))
        wire = Wire(reader, writer, asked)
        if isinstance(reply, bytes):
            await wire.send(reply)
            return True
        await reply(wire)
        return False


def page(body: bytes = b"hello", *headers: str, status: str = "200 OK") -> bytes:
    """Return a complete, well-framed response."""
    fields = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode("latin-1") + body


def redirect(location: str, *headers: str, status: str = "302 Found") -> bytes:
    """Return a redirect."""
    return page(b"moved", f"Location: {location}", *headers, status=status)


def raw(*parts: bytes, pause: float = 0, stay: bool = False) -> Reply:
    """Return a reply that sends these bytes as they are, then closes the connection, or stays silent."""

    async def reply(wire: Wire) -> None:
        for part in parts:
            await wire.send(part)
            await asyncio.sleep(pause)
        if stay:
            await wire.until_gone()

    return reply


def endless(head: bytes, part: bytes, pause: float = 0) -> Reply:
    """Return a reply that never ends by itself."""

    async def reply(wire: Wire) -> None:
        await wire.send(head)
        while True:
            await wire.send(part)
            await asyncio.sleep(pause)

    return reply


def _read(head: bytes) -> Asked:
    line, *fields = head.decode("latin-1").split("\r\n")
    pairs = (entry.split(":", 1) for entry in fields if entry)
    return Asked(line, {name.lower(): value.strip() for name, value in pairs})
