"""A plain HTTP client with one connection, which returns responses unmodified."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

TIMEOUT = 10.0


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """One connection to the host of a URL."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    async def __aenter__(self) -> Self:
        host, _, port = self._address.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(ConnectionError):  # the server may have closed it first
            await self._writer.wait_closed()

    async def get(self, path: str, **headers: str) -> Reply:
        """Request a path and wait for the response."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await self.send(f"GET {path} HTTP/1.1\r\nHost: {self._address}\r\n{lines}\r\n".encode())
        return await self.reply()

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self) -> Reply:
        """Read one response."""
        async with asyncio.timeout(TIMEOUT):
            head = await self._reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode().strip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await self._reader.readexactly(int(headers["content-length"]))
            return Reply(int(status.split()[1]), headers, body)
