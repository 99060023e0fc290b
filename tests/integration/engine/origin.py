"""A small web site that a test makes up, and that remembers what it was asked."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Answer:
    """What the site says to one request."""

    body: str | bytes = "<title>A page</title>"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0.0  # seconds

    def encode(self) -> bytes:
        """Return the answer as it goes over the wire."""
        body = self.body.encode() if isinstance(self.body, str) else self.body
        fields = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(body)),
            **self.headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{head}\r\n".encode() + body


class Origin:
    """Serves what `answer` says for a path, and counts the visits."""

    def __init__(
        self, answer: Callable[[str], Answer] = lambda path: Answer(), *, address: str = "127.0.0.1"
    ) -> None:
        self.answer, self._address = answer, address
        self.visits: Counter[str] = Counter()
        self.moments: list[tuple[float, str]] = []
        self.visitors: list[str] = []  # the address of each visitor, beside `moments`
        self.on_head: Callable[[str, str], object] = lambda path, head: None  # called with each request
        self.posts: list[tuple[str, bytes, str]] = []  # path, body and head of each POST

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._address, 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{self._address}:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                self.visits[path] += 1
                self.on_head(path, head.decode())
                self.moments.append((time.monotonic(), path))
                self.visitors.append(writer.get_extra_info("peername")[0])
                if head.startswith(b"POST "):
                    (size,) = re.findall(rb"content-length: *(\d+)", head, re.IGNORECASE)
                    self.posts.append((path, await reader.readexactly(int(size)), head.decode().lower()))
                answer = self.answer(path)
                await asyncio.sleep(answer.after)
                writer.write(answer.encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
