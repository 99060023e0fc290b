"""HTTP server for Prometheus: serves GET /metrics and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from shoal.core.errors import InvalidSetting, ShoalError

REQUEST_TIMEOUT = 5.0  # seconds to receive a request and send its response
MAX_HEAD = 8_192  # bytes
MAX_CONNECTIONS = 16
HERE = "127.0.0.1"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Render = Callable[[], Awaitable[bytes]]


class MetricsServer:
    """Serves what `render` returns while it is open."""

    def __init__(self, address: tuple[str, int], render: Render) -> None:
        self._host, self._port = address
        self._render = render
        self._connections = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}/metrics"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_HEAD)
        except OSError as error:
            reason = f"cannot be used: {self._host}:{self._port}: {error.strerror}. Name another port"
            raise InvalidSetting("--metrics", reason) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._respond(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a broken or slow request is closed without a response
        finally:
            self._connections -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _respond(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _reply("405 Method Not Allowed", b"Use GET.\n")
        if path != b"/metrics":
            return _reply("404 Not Found", b"The metrics are at /metrics.\n")
        try:
            body = await self._render()
        except ShoalError as error:
            return _reply("503 Service Unavailable", f"{type(error).__name__}\n".encode())
        reply = _reply("200 OK", body)
        return reply if method == b"GET" else reply[: len(reply) - len(body)]


def read_address(key: str, text: str) -> tuple[str, int]:
    """Read HOST:PORT or PORT, which means loopback; raises InvalidSetting."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSetting(key, f"takes HOST:PORT or PORT, such as 127.0.0.1:9464, not {text!r}")
    return host.strip("[]") or HERE, int(port)


def _reply(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    return head.encode() + b"\r\n" + body
