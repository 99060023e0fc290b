"""The browser's only way out: a proxy on loopback that lets pass what the door to the network admits.

Redirects, frames, workers, sockets and whatever else a page opens comes through here. It serves who shows the
secret of a context, and dials the addresses that were checked, or goes on by the context's way.
"""

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterable
from contextlib import suppress

from shoal.core.errors import FetchError, OutOfScope, ProxyRefused, ShoalError
from shoal.core.urls import host_of
from shoal.fetch.browser.dial import MOST_HEAD, Line, authorization, dial, dial_by, is_http
from shoal.fetch.browser.passes import Pass, Passes
from shoal.fetch.egress import Egress, Target

HOST = "127.0.0.1"
PART = 64 << 10
PATIENCE = 60.0  # seconds for a head to come
REALM = b'Proxy-Authenticate: Basic realm="shoal"\r\n'
_END = b"\r\n\r\n"
_HEAD = re.compile(rb"([A-Z]{1,20}) ([!-~\x80-\xff]{1,65536}) HTTP/1\.[01]")
# What is between two neighbours only, or between the browser and this gate.
_NEIGHBOURLY = re.compile(
    rb"\r\n(?:proxy-[a-z-]+|connection|keep-alive|te|trailer|upgrade):[^\r\n]*", re.IGNORECASE
)
_STATUS_407 = re.compile(rb"HTTP/1\.[01] 407\b")
_PORTS = {"http": 80, "https": 443}

Unwanted = Callable[[str], bool]


class Gate:
    """Listens on a free port of loopback while it is open."""

    def __init__(self, egress: Egress, unwanted: Unwanted = lambda _: False) -> None:
        self._egress, self._unwanted = egress, unwanted
        self.passes = Passes()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    @property
    def url(self) -> str:
        """Where the browser finds it."""
        assert self._server is not None, "open() has been awaited"
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=MOST_HEAD)

    async def close(self) -> None:
        """Hang up on everybody."""
        self._is_closed = True
        if self._server:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._is_closed:  # who was in the line when it closed
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._serving.add(task)
        # Not in the task: one that is cancelled before it has begun does nothing, and closes nothing.
        task.add_done_callback(lambda done: self._hang_up(done, writer))

    def _hang_up(self, served: "asyncio.Task[None]", writer: StreamWriter) -> None:
        self._serving.discard(served)
        writer.close()

    async def _serve(self, browser: Line) -> None:
        with suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
        ):
            await self._answer(browser)

    async def _answer(self, browser: Line) -> None:
        while True:
            async with asyncio.timeout(PATIENCE):
                head = await browser[0].readuntil(_END)
            found = _HEAD.match(head)
            if found is None:
                return
            shown = self.passes.find(_value(head, b"proxy-authorization"))
            if shown:
                break
            browser[1].write(b"HTTP/1.1 407 Who are you?\r\n" + REALM + b"Content-Length: 0\r\n\r\n")
        method, where = found[1], found[2].decode("latin-1")
        if method == b"CONNECT":
            await self._tunnel(browser, shown, where)
        else:
            await self._forward(browser, shown, where, head)

    async def _tunnel(self, browser: Line, shown: Pass, where: str) -> None:
        try:
            # Whatever runs in the tunnel, the port says whose it is: 80 is the default of http alone.
            scheme = "http" if where.endswith(":80") else "https"
            target = await self._admit(shown, f"{scheme}://{where}/")
            port = int(where.rpartition(":")[2])
            host = await (dial_by(shown.way, target.name, port) if shown.way else dial(target, port))
        except (ShoalError, ValueError) as error:
            self._remember(shown, where, error)
            browser[1].write(b"HTTP/1.1 502 Not to be reached\r\nContent-Length: 0\r\n\r\n")
            return
        browser[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        await _both_ways(browser, host, shown)

    async def _forward(self, browser: Line, shown: Pass, where: str, head: bytes) -> None:
        """Pass on one plain request; the next one comes on another connection, and is looked at too."""
        try:
            target = await self._admit(shown, where)
            length = int(_value(head, b"content-length") or 0)
            if _value(head, b"transfer-encoding"):
                raise OutOfScope("The browser sends a body without an end")
            host = await self._reach(shown, target)
        except (ShoalError, ValueError) as error:
            self._remember(shown, where, error)
            return  # hung up on: an answer would look as if it came from the host
        try:
            host[1].write(self._rewritten(shown, target, where, head))
            await _pass_on(browser[0], host[1], shown, length)
            answer = await host[0].readuntil(_END)
            if shown.way and _STATUS_407.match(answer):
                # The proxy says it, not the host; and the browser would take it for a word of this gate.
                self._remember(shown, where, ProxyRefused(shown.way.name, "it refused its user or password"))
                return
            browser[1].write(_NEIGHBOURLY.sub(b"", answer[:-2]) + b"Connection: close\r\n\r\n")
            await _pass_on(host[0], browser[1], shown)
        finally:
            host[1].close()

    async def _reach(self, shown: Pass, target: Target) -> Line:
        port = _port(target)
        if shown.way:
            return await dial_by(shown.way, target.name, port, tunnel=not is_http(shown.way))
        return await dial(target, port)

    def _rewritten(self, shown: Pass, target: Target, where: str, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        _, _, rest = rest.partition(b" ")
        lines = _NEIGHBOURLY.sub(b"", rest[:-4])
        if shown.way and is_http(shown.way):
            secret = authorization(shown.way)
            extra = f"\r\nProxy-Authorization: {secret}".encode() if secret else b""
        else:
            where, extra = "/" + where.split("/", 3)[3] if where.count("/") > 2 else "/", b""
        return (
            method + b" " + where.encode("latin-1") + b" " + lines + extra + b"\r\nConnection: close" + _END
        )

    async def _admit(self, shown: Pass, url: str) -> Target:
        target = await (self._egress.admit_by(shown.way, url) if shown.way else self._egress.admit(url))
        if self._unwanted(target.name):
            raise OutOfScope(f"{target.name} follows people, and is left out")
        return target

    def _remember(self, shown: Pass, where: str, error: Exception) -> None:
        with suppress(ShoalError):
            known = error if isinstance(error, ShoalError) else OutOfScope(str(error))
            bare = where if "://" in where else f"http://{where}/"
            for host in {host_of(bare), host_of(bare.replace("http://", "https://", 1))}:
                shown.refuse(host, known)


def _port(target: Target) -> int:
    tail = target.host[len(target.name) :]
    return int(tail[1:]) if tail else _PORTS[target.url.partition(":")[0]]


def _value(head: bytes, name: bytes) -> str:
    found = re.search(rb"\r\n" + name + rb":[ \t]*([^\r\n]*)", head, re.IGNORECASE)
    return found[1].decode("latin-1").strip() if found else ""


async def _both_ways(browser: Line, host: Line, shown: Pass) -> None:
    there = asyncio.ensure_future(_pass_on(browser[0], host[1], shown))
    back = asyncio.ensure_future(_pass_on(host[0], browser[1], shown))
    try:
        await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
    finally:
        host[1].close()  # first: who is cancelled once more while it stops the two would leave it open
        await _stop((there, back))


async def _stop(tasks: Iterable["asyncio.Future[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(source: StreamReader, sink: StreamWriter, shown: Pass, count: int | None = None) -> None:
    """Pass bytes on to the end, or so many of them."""
    with suppress(OSError, FetchError):
        while (count is None or count > 0) and (
            part := await source.read(PART if count is None else min(PART, count))
        ):
            if not shown.spend(len(part)):
                return
            sink.write(part)
            await sink.drain()
            count = None if count is None else count - len(part)
