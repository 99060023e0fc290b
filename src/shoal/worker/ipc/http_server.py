"""A minimal and strict HTTP/1.1 server, for the calls and the metrics of workers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from shoal.core.errors import InvalidSetting

REQUEST_TIMEOUT_SECONDS = 10.0  # to receive a request, and to send its response
IDLE_TIMEOUT_SECONDS = 60.0  # that a client may wait before its next request, if it may send another
MAX_HEAD_BYTES = 8_192
MAX_BODY_BYTES = 8 * 1024 * 1024


class BadRequest(Exception):
    """The request is malformed."""


class HttpRequest(NamedTuple):
    """The head of a request, and a function that reads its body."""

    method: str
    path: str
    fields: Mapping[str, str]
    read_body: Callable[[], Awaitable[bytes]]


class HttpReply(msgspec.Struct, frozen=True):
    """A response. The client may send another request if `keep_alive` is set."""

    status: int
    body: bytes = b""
    fields: Mapping[str, str] = msgspec.field(default_factory=dict)
    keep_alive: bool = False


Respond = Callable[[HttpRequest], Awaitable[HttpReply]]


class SmallHttpServer:
    """Answers requests with `respond` while it is open, on the first port that is free.

    It never waits long: not for a request, nor for a client that does not read, nor when it closes.
    """

    def __init__(self, host: str, ports: Iterable[int], respond: Respond, *, max_connections: int) -> None:
        self._host, self._ports, self._respond = host, ports, respond
        self._max_connections = max_connections
        self._connections: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}  # without a complete request, the oldest first
        self._busy = 0
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Its host and port."""
        assert self._server is not None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def open(self, setting: str) -> None:
        """Listen; raises InvalidSetting, with the name of the option that chooses the port."""
        problem = ""
        for port in self._ports:
            try:
                self._server = await asyncio.start_server(
                    self._serve_connection, self._host, port, limit=MAX_HEAD_BYTES
                )
                return
            except OSError as error:
                problem = problem or f"{self._host}:{port}: {error.strerror}"
        raise InvalidSetting(setting, f"cannot be used: {problem}. Name another port")

    async def close(self) -> None:
        """Stop listening, and finish the requests that have arrived."""
        assert self._server is not None
        self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                while self._busy:
                    await asyncio.sleep(0.01)
        for connection in self._connections:
            connection.cancel()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        has_room = len(self._connections) < self._max_connections or self._close_oldest_silent()
        self._connections.add(connection)
        try:
            if has_room:
                keep_alive = await self._serve_one(reader, writer, REQUEST_TIMEOUT_SECONDS)
                while keep_alive:
                    keep_alive = await self._serve_one(reader, writer, IDLE_TIMEOUT_SECONDS)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that violates the protocol is disconnected without a response
        except asyncio.CancelledError:
            pass  # the server is closing
        finally:
            self._connections.discard(connection)
            self._silent.pop(connection, None)
            writer.close()

    def _close_oldest_silent(self) -> bool:
        """Make room for a connection: clients that send nothing must not keep a probe out."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        del self._silent[oldest]
        self._connections.discard(oldest)
        return oldest.cancel()

    async def _serve_one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float
    ) -> bool:
        """Respond to the next request; return whether another one may follow."""
        connection = asyncio.current_task()
        assert connection is not None
        self._silent[connection] = None
        async with asyncio.timeout(timeout):
            first = await reader.readexactly(1)
        self._busy += 1
        try:
            reply, is_head = await self._reply(connection, first, reader)
            writer.write(_encode(reply, is_head))
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                await writer.drain()
        finally:
            self._busy -= 1
        return reply.keep_alive

    async def _reply(
        self, connection: asyncio.Task[None], first: bytes, reader: asyncio.StreamReader
    ) -> tuple[HttpReply, bool]:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            self._silent.pop(connection, None)
            request = _parse_head(first + head, reader)
            return await self._respond(request), request.method == "HEAD"
        except BadRequest as error:
            return HttpReply(400, str(error).encode()), False


def _parse_head(head: bytes, reader: asyncio.StreamReader) -> HttpRequest:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[1].startswith("/"):
        raise BadRequest("Send METHOD /PATH HTTP/1.1.")
    fields: dict[str, str] = {}
    for line in filter(None, lines[1:]):
        name, _, value = line.partition(":")
        # One that comes twice is a list: a length or a signature that does is no longer valid.
        earlier = f"{fields[name.lower()]}, " if name.lower() in fields else ""
        fields[name.lower()] = earlier + value.strip()
    if "transfer-encoding" in fields:
        raise BadRequest("Send the body with Content-Length.")

    async def read_body() -> bytes:
        async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
            return await reader.readexactly(_content_length(fields))

    return HttpRequest(words[0], words[1], fields, read_body)


def _content_length(fields: Mapping[str, str]) -> int:
    text = fields.get("content-length", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) > MAX_BODY_BYTES:
        raise BadRequest(f"The maximum body size is {MAX_BODY_BYTES:,} bytes.")
    return int(text)


def _encode(reply: HttpReply, is_head: bool) -> bytes:
    fields = {"content-type": "text/plain; charset=utf-8", **reply.fields}
    fields |= {"content-length": str(len(reply.body))}
    if not reply.keep_alive:
        fields["connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    status = HTTPStatus(reply.status)
    return f"HTTP/1.1 {status} {status.phrase}\r\n{head}\r\n".encode() + (b"" if is_head else reply.body)
