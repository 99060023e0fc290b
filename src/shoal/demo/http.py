"""A minimal HTTP/1.1 server: GET and HEAD, keep-alive, malformed requests rejected."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Self, cast

from shoal.demo.routes import TEXT, ShopResponse

MAX_HEAD = 32_768  # bytes of unread requests; no valid head is longer

_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,20}) (?:http://[^/ ]+)?(/[!-~]*) HTTP/1\.([01])(?:\r\n|$)")
# After these the connection is closed: as requested, or because a body follows that is not read.
_CLOSE = re.compile(rb"\r\n(?:connection: *close|content-length: *[1-9]|transfer-encoding:)", re.IGNORECASE)

OnRequest = Callable[[str], ShopResponse]


@dataclass(frozen=True, slots=True)
class ShopRequest:
    """The parts of a request head that the shop needs."""

    method: str
    path: str
    is_last: bool

    @classmethod
    def read(cls, head: bytes) -> Self | None:
        """Parse a request head; None if it is not HTTP."""
        found = _REQUEST.match(head)
        if found is None:
            return None
        method, path, minor = found.groups()
        return cls(method.decode(), path.decode(), minor == b"0" or _CLOSE.search(head) is not None)


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
            self._unread = rest
            self._serve(ShopRequest.read(head))
        if len(self._unread) > MAX_HEAD:
            self._reject(431)

    def _serve(self, request: ShopRequest | None) -> None:
        if request is None:
            return self._reject(400)
        if request.method not in ("GET", "HEAD"):
            return self._reject(405)
        response = self._on_request(request.path)
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
