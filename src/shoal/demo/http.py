"""A minimal HTTP/1.1 server: GET, HEAD and small POSTs, keep-alive, malformed requests rejected."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Self, cast

from shoal.demo.routes import TEXT, ShopResponse

MAX_HEAD = 32_768  # bytes of unread requests; no valid head is longer
MAX_FORM = 4_096  # bytes

_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,20}) (?:http://[^/ ]+)?(/[!-~]*) HTTP/1\.([01])(?:\r\n|$)")
# After these the connection is closed: as requested, or because a body follows.
_CLOSE = re.compile(rb"\r\n(?:connection: *close|content-length: *[1-9]|transfer-encoding:)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})(?:\r\n|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ShopRequest:
    """A request; the body is that of a POST."""

    method: str
    path: str
    is_last: bool
    head: bytes = b""
    body: bytes = b""

    @property
    def length(self) -> int:
        """The size of the body of a POST, as the head states it."""
        found = _LENGTH.search(self.head) if self.method == "POST" else None
        return int(found[1]) if found else 0

    def header(self, name: str) -> str:
        """Return the first header of this name, or nothing."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return ""

    @classmethod
    def read(cls, head: bytes) -> Self | None:
        """Parse a request head; None if it is not HTTP."""
        found = _REQUEST.match(head)
        if found is None:
            return None
        method, path, minor = found.groups()
        is_last = minor == b"0" or _CLOSE.search(head) is not None
        return cls(method.decode(), path.decode(), is_last, head)


OnRequest = Callable[[ShopRequest], ShopResponse]


class Connection(asyncio.Protocol):
    """One client connection; its requests are served in order."""

    def __init__(self, on_request: OnRequest, connections: set["Connection"]) -> None:
        self._on_request = on_request
        self._connections = connections
        self._unread = b""
        self._delayed: asyncio.TimerHandle | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if self._delayed is not None:
            self._delayed.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._serve_pending()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._serve_pending()

    def close(self) -> None:
        """Close the connection immediately."""
        self._transport.abort()

    def _serve_pending(self) -> None:
        """Serve the received requests, unless a response is still delayed or blocked."""
        while self._delayed is None and not self._is_full and not self._transport.is_closing():
            head, found, rest = self._unread.partition(_END)
            if not found:
                break
            request = ShopRequest.read(head)
            length = request.length if request else 0
            if length > MAX_FORM:
                return self._reject(413)
            if len(rest) < length:
                break
            self._unread = rest[length:]
            self._serve(replace(request, body=rest[:length]) if request and length else request)
        if len(self._unread) > MAX_HEAD:
            self._reject(431)
        return None

    def _serve(self, request: ShopRequest | None) -> None:
        if request is None:
            return self._reject(400)
        response = self._on_request(request)
        if response.status == 405:
            return self._reject(405)
        if not response.wait:
            return self._send(response, request)
        loop = asyncio.get_running_loop()
        self._delayed = loop.call_later(response.wait.total_seconds(), self._send_late, response, request)
        return None

    def _send_late(self, response: ShopResponse, request: ShopRequest) -> None:
        self._delayed = None
        self._send(response, request)
        self._serve_pending()

    def _send(self, response: ShopResponse, request: ShopRequest) -> None:
        head = _head(response, request.is_last)
        self._transport.write(head if request.method == "HEAD" else head + response.body)
        if request.is_last:
            self._transport.close()

    def _reject(self, status: int) -> None:
        self._unread = b""
        response = ShopResponse(status=status, body=HTTPStatus(status).phrase.encode(), content_type=TEXT)
        self._send(response, ShopRequest("GET", "", is_last=True))


def _head(response: ShopResponse, is_last: bool) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    return (
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"Connection: {'close' if is_last else 'keep-alive'}\r\n{extra}\r\n"
    ).encode()
