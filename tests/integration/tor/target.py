"""A web site on all of loopback, which sees by the address that a visitor came to by which exit it came."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Self


class Visit(NamedTuple):
    """One request."""

    exit: str  # the address that it came to
    path: str
    cookie: str


@dataclass
class Target:
    """Answers with the exit's address, on a new connection for each request, unless it is told otherwise."""

    visits: list[Visit] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    connections: int = 0
    port: int = 0

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def exits(self, path: str | None = None) -> list[str]:
        """Return by which exits it was asked."""
        return [visit.exit for visit in self.visits if path in (None, visit.path)]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "0.0.0.0", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            exit_ = writer.get_extra_info("sockname")[0]
            path = head.split(" ", 2)[1]
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            self.visits.append(Visit(exit_, path, fields.get("cookie", "")))
            writer.write(self._answer(exit_, path))
            await writer.drain()
        writer.close()

    def _answer(self, exit_: str, path: str) -> bytes:
        status = self.statuses.get(path, "404 Not Found" if path == "/robots.txt" else "200 OK")
        body = self.bodies.get(path, exit_)
        fields = [
            "Connection: close",
            "Content-Type: text/html",
            f"Content-Length: {len(body)}",
            f"Set-Cookie: came_by={exit_}",
        ]
        if path in self.redirects:
            status, fields = "302 Found", [*fields, f"Location: {self.redirects[path]}"]
        return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", body]).encode()
