"""A TCP proxy that loses answers: the server has done the work, and the client never hears of it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

from tests.servers.process import free_port

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)  # the linger of a socket whose close sends RST


class Talk(Protocol):
    """What the proxy must understand of one connection's protocol."""

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        """Follow the client's bytes; True when a request that holds the marker has begun to pass."""

    def answered(self, data: bytes) -> bool:
        """Follow the server's bytes; True when that request has been answered in full."""


class LossyProxy:
    """Passes bytes to a server and back, until it is told to lose them.

    `talk` makes the reader of one connection's protocol, such as `PostgresTalk`.
    """

    def __init__(self, port: int, talk: type[Talk]) -> None:
        self.port = free_port()
        self.struck = 0
        self._server_port = port
        self._talk = talk
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._loss: Loss | None = None

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    @property
    def connections(self) -> int:
        """How many connections pass through now."""
        return len(self._links)

    async def accept(self) -> None:
        """Take connections, again after `refuse`."""
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Cut all connections and refuse new ones."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self.cut()

    def lead_to(self, port: int) -> None:
        """Lead new connections to another server; those that are open stay where they are."""
        self._server_port = port

    async def cut(self) -> None:
        """Drop all connections in both directions, whatever is under way."""
        links = list(self._links)
        for link in links:
            link.cut()
        await asyncio.gather(*(link.ended.wait() for link in links))

    def reset(self) -> None:
        """Send RST on all connections, as a firewall does that has forgotten them."""
        for link in list(self._links):
            if not link.client.is_closing():
                link.client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                link.cut()

    @asynccontextmanager
    async def lose_next_reply(self, *, matching: bytes, times: int = 1) -> AsyncIterator["Loss"]:
        """Let the next requests that hold the marker through to the server, and lose the answers.

        Each one's connection is dropped once the server has answered in full, so that its work is committed.
        Fails at the end of the block when fewer than `times` requests came.
        """
        self._loss = loss = Loss(matching, times)
        try:
            yield loss
        finally:
            self._loss = None
        assert loss.struck == times, f"lost {loss.struck} of {times} answers to {matching!r}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._listener is None:  # the connection came while `refuse` was closing the door
            writer.transport.abort()
            return
        link = _Link(self, self._talk(), writer)
        self._links.add(link)
        try:
            await link.carry(reader, self._server_port)
        finally:
            self._links.discard(link)
            link.ended.set()

    def armed(self) -> "Loss | None":
        """Return the loss that the next matching request falls under."""
        return self._loss if self._loss and self._loss.left else None

    def strike(self, loss: "Loss") -> None:
        """Count one lost answer."""
        self.struck += 1
        loss.struck += 1


@dataclass
class Loss:
    """An order to lose answers, and how far it has been carried out."""

    marker: bytes
    times: int
    taken: int = 0
    struck: int = 0

    @property
    def left(self) -> int:
        """How many more requests fall under it."""
        return self.times - self.taken


@dataclass(eq=False)
class _Link:
    """One client's connection and its counterpart to the server."""

    proxy: LossyProxy
    talk: Talk
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    loss: Loss | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def carry(self, from_client: asyncio.StreamReader, port: int) -> None:
        """Pass bytes in both directions until one side ends or the link is cut."""
        with suppress(OSError):
            from_server, self.server = await asyncio.open_connection("127.0.0.1", port)
            ways = [
                asyncio.ensure_future(self._carry_requests(from_client, self.server)),
                asyncio.ensure_future(self._carry_answers(from_server)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            self.cut()
            await asyncio.gather(*ways, return_exceptions=True)
        self.cut()

    def cut(self) -> None:
        """Drop both sides at once."""
        self.client.transport.abort()
        if self.server is not None:
            self.server.transport.abort()

    async def _carry_requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            loss = None if self.loss else self.proxy.armed()
            if self.talk.asked(data, loss.marker if loss else None) and loss:
                # Before the bytes go out, or the answer might come first.
                self.loss = loss
                loss.taken += 1
            server.write(data)
            await server.drain()

    async def _carry_answers(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            answered = self.talk.answered(data)
            if self.loss is None:
                self.client.write(data)
                await self.client.drain()
            elif answered:
                self.proxy.strike(self.loss)
                return
