"""The browser's only exit: a proxy on loopback that applies the egress rules.

Redirects, frames, workers, sockets and everything else that a page opens goes through it. It serves clients
that send the credential of a context, and connects to the checked addresses, or through the context's proxy.
"""

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from urllib.parse import urlsplit

from shoal.core.errors import FetchError, OutOfScope, ProxyRefused, ShoalError
from shoal.core.urls import host_of
from shoal.fetch.browser.proxy.connect import MAX_HEAD, Connection, authorization, dial, dial_via, is_http
from shoal.fetch.browser.proxy.credentials import ProxyCredential, ProxyCredentials
from shoal.fetch.egress import AllowedTarget, Egress

HOST = "127.0.0.1"
CHUNK = 64 << 10
HEAD_TIMEOUT = timedelta(seconds=60)  # for a request head to arrive
REALM = b'Proxy-Authenticate: Basic realm="shoal"\r\n'
_END = b"\r\n\r\n"
_HEAD = re.compile(rb"([A-Z]{1,20}) ([!-~\x80-\xff]{1,65536}) HTTP/1\.[01]")
# Hop-by-hop headers, and those between the browser and this proxy.
_HOP_BY_HOP = re.compile(
    rb"\r\n(?:proxy-[a-z-]+|connection|keep-alive|te|trailer|upgrade):[^\r\n]*", re.IGNORECASE
)
_STATUS_407 = re.compile(rb"HTTP/1\.[01] 407\b")
_PORTS = {"http": 80, "https": 443}

IsBlocked = Callable[[str], bool]


class BrowserProxy:
    """Listens on a free port of loopback while it is open."""

    def __init__(self, egress: Egress, is_blocked: IsBlocked = lambda _: False) -> None:
        self._egress, self._is_blocked = egress, is_blocked
        self.credentials = ProxyCredentials()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    @property
    def url(self) -> str:
        """Its URL for the browser."""
        assert self._server is not None, "open() has been awaited"
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def open(self) -> None:
        """Start to listen."""
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=MAX_HEAD)

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._server:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._is_closed:  # a connection that was queued when it closed
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._serving.add(task)
        # Not in the task: one that is cancelled before it starts runs nothing, and closes nothing.
        task.add_done_callback(lambda done: self._close_connection(done, writer))

    def _close_connection(self, served: "asyncio.Task[None]", writer: StreamWriter) -> None:
        self._serving.discard(served)
        writer.close()

    async def _serve(self, browser: Connection) -> None:
        with suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
        ):
            await self._handle(browser)

    async def _handle(self, browser: Connection) -> None:
        while True:
            async with asyncio.timeout(HEAD_TIMEOUT.total_seconds()):
                head = await browser[0].readuntil(_END)
            found = _HEAD.match(head)
            if found is None:
                return
            credential = self.credentials.find(_value(head, b"proxy-authorization"))
            if credential:
                break
            browser[1].write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n" + REALM + b"Content-Length: 0\r\n\r\n"
            )
        method, target_url = found[1], found[2].decode("latin-1")
        if method == b"CONNECT":
            await self._tunnel(browser, credential, target_url)
        else:
            await self._forward(browser, credential, target_url, head)

    async def _tunnel(self, browser: Connection, credential: ProxyCredential, target_url: str) -> None:
        try:
            # Whatever the tunnel carries, the port tells the scheme: 80 is the default of http alone.
            scheme = "http" if target_url.endswith(":80") else "https"
            target = await self._admit(credential, f"{scheme}://{target_url}/")
            port = int(target_url.rpartition(":")[2])
            host = await (
                dial_via(credential.proxy, target.name, port) if credential.proxy else dial(target, port)
            )
        except (ShoalError, ValueError) as error:
            self._record_refusal(credential, target_url, error)
            browser[1].write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        browser[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        await _relay(browser, host, credential)

    async def _forward(
        self, browser: Connection, credential: ProxyCredential, target_url: str, head: bytes
    ) -> None:
        """Forward one plain request; the next one needs a new connection, and is checked too."""
        try:
            target = await self._admit(credential, target_url)
            length = int(_value(head, b"content-length") or 0)
            if _value(head, b"transfer-encoding"):
                raise OutOfScope("The browser sends a body of unknown length")
            host = await self._reach(credential, target)
        except (ShoalError, ValueError) as error:
            self._record_refusal(credential, target_url, error)
            return  # closed without a response, which would look as if it came from the host
        try:
            host[1].write(self._rewrite_head(credential, target, target_url, head))
            await _copy(browser[0], host[1], credential, length)
            response_head = await host[0].readuntil(_END)
            if credential.proxy and _STATUS_407.match(response_head):
                # The upstream proxy sent it, not the host; and the browser would take it for this proxy's.
                self._record_refusal(
                    credential,
                    target_url,
                    ProxyRefused(credential.proxy.name, "it rejected its user or password"),
                )
                return
            browser[1].write(_HOP_BY_HOP.sub(b"", response_head[:-2]) + b"Connection: close\r\n\r\n")
            await _copy(host[0], browser[1], credential)
        finally:
            host[1].close()

    async def _reach(self, credential: ProxyCredential, target: AllowedTarget) -> Connection:
        port = _port(target)
        if credential.proxy:
            return await dial_via(credential.proxy, target.name, port, tunnel=not is_http(credential.proxy))
        return await dial(target, port)

    def _rewrite_head(
        self, credential: ProxyCredential, target: AllowedTarget, target_url: str, head: bytes
    ) -> bytes:
        method, _, rest = head.split(b" ", 2)
        lines = _HOP_BY_HOP.sub(b"", rest[:-4])
        if credential.proxy and is_http(credential.proxy):
            secret = authorization(urlsplit(credential.proxy.url))
            extra = f"\r\nProxy-Authorization: {secret}".encode() if secret else b""
        else:
            target_url, extra = "/" + target_url.split("/", 3)[3] if target_url.count("/") > 2 else "/", b""
        return (
            b" ".join([method, target_url.encode("latin-1"), lines]) + extra + b"\r\nConnection: close" + _END
        )

    async def _admit(self, credential: ProxyCredential, url: str) -> AllowedTarget:
        target = await self._egress.admit_request(url, credential.proxy)
        if self._is_blocked(target.name):
            raise OutOfScope(f"{target.name} is a tracker and is blocked")
        return target

    def _record_refusal(self, credential: ProxyCredential, target_url: str, error: Exception) -> None:
        with suppress(ShoalError):
            known = error if isinstance(error, ShoalError) else OutOfScope(str(error))
            bare = target_url if "://" in target_url else f"http://{target_url}/"
            for host in {host_of(bare), host_of(bare.replace("http://", "https://", 1))}:
                credential.refuse(host, known)


def _port(target: AllowedTarget) -> int:
    tail = target.host[len(target.name) :]
    return int(tail[1:]) if tail else _PORTS[target.url.partition(":")[0]]


def _value(head: bytes, name: bytes) -> str:
    found = re.search(rb"\r\n" + name + rb":[ \t]*([^\r\n]*)", head, re.IGNORECASE)
    return found[1].decode("latin-1").strip() if found else ""


async def _relay(browser: Connection, host: Connection, credential: ProxyCredential) -> None:
    there = asyncio.ensure_future(_copy(browser[0], host[1], credential))
    back = asyncio.ensure_future(_copy(host[0], browser[1], credential))
    try:
        await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
    finally:
        host[1].close()  # first: a second cancellation while the two are stopped would leave it open
        there.cancel()
        back.cancel()
        await asyncio.gather(there, back, return_exceptions=True)


async def _copy(
    source: StreamReader, sink: StreamWriter, credential: ProxyCredential, count: int | None = None
) -> None:
    """Copy bytes until the end, or `count` of them."""
    with suppress(OSError, FetchError):
        while (count is None or count > 0) and (
            part := await source.read(CHUNK if count is None else min(CHUNK, count))
        ):
            if not credential.consume(len(part)):
                return
            sink.write(part)
            await sink.drain()
            count = None if count is None else count - len(part)
