"""Enough of HTTP/1.1 for a shop: GET and HEAD, connections kept alive, strange requests refused."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Self, cast

from shoal.demo.routes import TEXT, Answer

MAX_HEAD = 32_768  # bytes of requests that may lie unread; no honest head is longer

_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,20}) (?:http://[^/ ]+)?(/[!-~]*) HTTP/1\.([01])(?:\r\n|$)")
# After these the connection is closed: because it was asked for, or because a body follows that is not read.
_LAST = re.compile(rb"\r\n(?:connection: *close|content-length: *[1-9]|transfer-encoding:)", re.IGNORECASE)

OnRequest = Callable[[str], Answer]


@dataclass(frozen=True, slots=True)
class Asked:
    """The head of a request, as far as a shop cares."""

    method: str
    path: str
    is_last: bool

    @classmethod
    def read(cls, head: bytes) -> Self | None:
        """Return what a head asks for; None when it is no HTTP."""
        found = _REQUEST.match(head)
        if found is None:
            return None
        method, path, minor = found.groups()
        return cls(method.decode(), path.decode(), minor == b"0" or _LAST.search(head) is not None)


class Connection(asyncio.Protocol):
    """One client: its requests are answered one after the other."""

    def __init__(self, on_request: OnRequest, everyone: set["Connection"]) -> None:
        self._on_request = on_request
        self._everyone = everyone
        self._unread = b""
        self._later: asyncio.TimerHandle | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._everyone.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._everyone.discard(self)
        if self._later is not None:
            self._later.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._go_on()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._go_on()

    def close(self) -> None:
        """Hang up at once."""
        self._transport.abort()

    def _go_on(self) -> None:
        """Answer what has come in, unless an answer is still on its way."""
        while self._later is None and not self._is_full and not self._transport.is_closing():
            head, found, rest = self._unread.partition(_END)
            if not found:
                break
            self._unread = rest
            self._serve(Asked.read(head))
        if len(self._unread) > MAX_HEAD:
            self._refuse(431)

    def _serve(self, asked: Asked | None) -> None:
        if asked is None:
            return self._refuse(400)
        if asked.method not in ("GET", "HEAD"):
            return self._refuse(405)
        answer = self._on_request(asked.path)
        if not answer.wait:
            return self._send(answer, asked)
        loop = asyncio.get_running_loop()
        self._later = loop.call_later(answer.wait.total_seconds(), self._send_late, answer, asked)
        return None

    def _send_late(self, answer: Answer, asked: Asked) -> None:
        self._later = None
        self._send(answer, asked)
        self._go_on()

    def _send(self, answer: Answer, asked: Asked) -> None:
        head = _head(answer, asked.is_last)
        self._transport.write(head if asked.method == "HEAD" else head + answer.body)
        if asked.is_last:
            self._transport.close()

    def _refuse(self, status: int) -> None:
        self._unread = b""
        answer = Answer(status=status, body=HTTPStatus(status).phrase.encode(), content_type=TEXT)
        self._send(answer, Asked("GET", "", is_last=True))


def _head(answer: Answer, is_last: bool) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    return (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"Connection: {'close' if is_last else 'keep-alive'}\r\n{extra}\r\n"
    ).encode()
