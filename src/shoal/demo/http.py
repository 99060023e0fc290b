"""A minimal HTTP/1.1 server: GET, HEAD and small POSTs, keep-alive, malformed requests rejected."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Self

import msgspec

from shoal.demo.responses import TEXT, ShopResponse

ADDRESS = "127.0.0.1"
BACKLOG = 1_024  # connections that wait to be accepted
MAX_HEAD = 32_768  # bytes
MAX_FORM = 4_096  # bytes

_REQUEST = re.compile(rb"([A-Z]{1,20}) (?:http://[^/ ]+)?(/[!-~]*) HTTP/1\.([01])\r\n")
# After these the connection is closed: as requested, or because of a body that nobody reads.
_CLOSE = re.compile(rb"\r\n(?:connection: *close|content-length: *[1-9]|transfer-encoding:)", re.IGNORECASE)


class ShopRequest(msgspec.Struct, frozen=True):
    """A request; the body is that of a POST."""

    method: str
    path: str
    is_last: bool = True
    head: bytes = b""
    body: bytes = b""

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Self | int:
        """Return the next request, or the status of one that is malformed or too large."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return 431
        found = _REQUEST.match(head)
        if found is None:
            return 400
        method, path, minor = found.groups()
        request = cls(method.decode(), path.decode(), minor == b"0" or _CLOSE.search(head) is not None, head)
        length = int(request.header("Content-Length") or 0) if request.method == "POST" else 0
        if length > MAX_FORM:
            return 413
        return cls(request.method, request.path, request.is_last, head, await reader.readexactly(length))

    def header(self, name: str) -> str:
        """Return the first header of this name, or nothing."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return ""

    @property
    def page(self) -> int:
        """The page that the query asks for, 1 by default, 0 if it is not a number."""
        number = self.path.partition("?page=")[2] or "1"
        return int(number) if number.isdecimal() and len(number) < 7 else 0


class HttpServer:
    """Serves a port; `enter` is awaited before each response."""

    def __init__(
        self,
        respond: Callable[[ShopRequest], ShopResponse],
        enter: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._respond, self._enter = respond, enter
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, listener: socket.socket) -> None:
        """Accept connections until it is closed."""
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD, backlog=BACKLOG)

    def close(self) -> None:
        """Close the port and all connections immediately."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has left
        except asyncio.CancelledError:
            pass  # the loop ends; Python 3.11 prints the traceback of a handler that was cancelled
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve a request; return whether the connection stays open."""
        request = await ShopRequest.read(reader)
        if isinstance(request, int):
            response, request = _error(request), ShopRequest("GET", "")
        else:
            if self._enter:
                await self._enter()
                if reader.at_eof():
                    return False  # the client has left meanwhile
            response = self._respond(request)
        if response.status == 405:
            response, request = _error(405), ShopRequest("GET", "")
        await asyncio.sleep(response.wait.total_seconds())
        head = _head(response, request.is_last)
        writer.write(head if request.method == "HEAD" else head + response.body)
        await writer.drain()
        return not request.is_last


def _error(status: int) -> ShopResponse:
    return ShopResponse(status=status, body=HTTPStatus(status).phrase.encode(), content_type=TEXT)


def _head(response: ShopResponse, is_last: bool) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    return (
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"Connection: {'close' if is_last else 'keep-alive'}\r\n{extra}\r\n"
    ).encode()
