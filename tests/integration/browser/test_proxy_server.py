"""The browser proxy serves the browser alone, and forwards through the context's proxy."""

import asyncio
import base64
from contextlib import suppress

import pytest

from shoal.core.errors import ProxyFailed, ProxyRefused
from shoal.core.http import Proxy as ProxyAddress
from shoal.fetch.browser.proxy.server import BrowserProxy
from shoal.fetch.egress import Egress
from tests.integration.browser.conftest import fetch
from tests.integration.browser.test_pages import html
from tests.integration.fetch.conftest import LOOPBACK, loopback
from tests.integration.fetch.hostile import page


@pytest.fixture
async def gate():
    made = BrowserProxy(Egress([LOOPBACK], lookup=loopback))
    await made.open()
    yield made
    await made.close()


async def ask(gate: BrowserProxy, head: str, body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gate.url.rpartition(":")[2]))
    writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    try:
        async with asyncio.timeout(5):
            return await reader.read(65_536)
    finally:
        writer.close()


async def test_a_client_without_credentials_is_not_served(gate, origin):
    origin.on("/", page())
    credential = gate.credentials.create(None)
    wrong = base64.b64encode(f"{credential.name}:guessed".encode()).decode()
    for credentials in (
        "",
        f"\nProxy-Authorization: Basic {wrong}",
        f"\nProxy-Authorization: Bearer {credential.token}",
    ):
        for line in (f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1", f"GET {origin.url()} HTTP/1.1"):
            assert (await ask(gate, line + credentials)).startswith(b"HTTP/1.1 407 ")
    assert origin.connections == 0


async def test_a_pass_that_was_taken_back_is_none(gate, origin):
    origin.on("/", page())
    credential = gate.credentials.create(None)
    line = f"GET {origin.url()} HTTP/1.1\nProxy-Authorization: Basic {credential.token}"
    credential.begin(1_000_000, lambda error: None)
    assert b"hello" in await ask(gate, line)
    gate.credentials.revoke(credential)
    assert (await ask(gate, line)).startswith(b"HTTP/1.1 407 ")


async def test_what_is_between_neighbours_is_not_passed_on(gate, origin):
    origin.on("/a", page())
    credential = gate.credentials.create(None)
    credential.begin(1_000_000, lambda error: None)
    fields = f"Host: x\nProxy-Authorization: Basic {credential.token}\nX-Own: 1\nProxy-Connection: keep-alive"
    assert b"Connection: close" in await ask(gate, f"GET {origin.url('/a?b=c')} HTTP/1.1\n{fields}")
    assert origin.asked[0].line == "GET /a?b=c HTTP/1.1"
    assert origin.asked[0].headers == {"host": "x", "x-own": "1", "connection": "close"}


async def test_nonsense_is_hung_up_on(gate, origin):
    credential = gate.credentials.create(None)
    for line in (
        "",
        "nonsense",
        "CONNECT HTTP/1.1",
        "GET / HTTP/2",
        "CONNECT no-port HTTP/1.1",
        "GET /path HTTP/1.1",
    ):
        answer = await ask(gate, f"{line}\nProxy-Authorization: Basic {credential.token}")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 502")
    assert origin.connections == 0


async def test_who_comes_while_it_closes_is_hung_up_on(monkeypatch):
    gate = BrowserProxy(Egress([LOOPBACK], lookup=loopback))
    accept, closing = gate._accept, []

    def close_and_accept(reader, writer):
        closing.append(asyncio.create_task(gate.close()))  # which runs before any connection is served
        accept(reader, writer)

    monkeypatch.setattr(gate, "_accept", close_and_accept)
    await gate.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gate.url.rpartition(":")[2]))
    async with asyncio.timeout(5):
        assert await reader.read() == b""
        await asyncio.gather(*closing)
    writer.close()


async def test_the_host_is_hung_up_on_when_the_gate_closes_on_a_tunnel(gate):
    gone = asyncio.Event()

    async def host(reader, writer):
        await reader.read()
        writer.close()
        gone.set()

    credential = gate.credentials.create(None)
    async with await asyncio.start_server(host, "127.0.0.1", 0) as server:
        line = f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1"
        asking = asyncio.create_task(ask(gate, f"{line}\nProxy-Authorization: Basic {credential.token}"))
        assert b" 200 " in await asking
        await gate.close()
        async with asyncio.timeout(5):
            await gone.wait()


class Proxy:
    """A proxy that records its requests and accepts one user."""

    def __init__(self, origin):
        self.origin, self.heads, self.refuse = origin, [], False
        self._serving = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader, writer):
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(lambda done: (self._serving.discard(done), writer.close()))

    async def _serve(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has disconnected
            first = await reader.readexactly(1)
            await (self._socks(reader, writer) if first == b"\x05" else self._http(first, reader, writer))

    async def _http(self, first, reader, writer):
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self.refuse or f"Basic {base64.b64encode(b'me:p@ss').decode()}" not in head:
            writer.write(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
        else:
            await self._pass_on(head.replace(f"http://shop.test:{self.origin.port}", "").encode(), writer)
        await writer.drain()

    async def _socks(self, reader, writer):
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        if self.refuse or (user, password) != (b"me", b"p@ss"):
            writer.write(b"\x01\x01")
            return
        writer.write(b"\x01\x00")
        await reader.readexactly(4)
        name = await reader.readexactly((await reader.readexactly(1))[0])
        self.heads.append(name.decode())
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await self._pass_on(await reader.readuntil(b"\r\n\r\n"), writer)

    async def _pass_on(self, head, writer):
        reader, there = await asyncio.open_connection("127.0.0.1", self.origin.port)
        try:
            there.write(head)
            writer.write(await reader.read(65_536))
            await writer.drain()
        finally:
            there.close()


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
async def test_a_page_is_fetched_by_its_proxy_and_no_name_is_resolved_here(browse, origin, scheme):
    async def nobody(name):
        raise AssertionError(f"{name} was looked up")

    origin.on("/", html("<p>by proxy"))
    browser = browse(Egress([f"shop.test:{origin.port}"], lookup=nobody))
    async with Proxy(origin) as proxy:
        address = ProxyAddress(name="mine", url=f"{scheme}://me:p%40ss@127.0.0.1:{proxy.port}")
        response = await fetch(browser, origin.url(host="shop.test"), proxy=address)
        assert b"by proxy" in response.body
        assert "shop.test" in proxy.heads[0]
        proxy.refuse = True
        with pytest.raises(ProxyRefused, match="mine: it rejected its user or password"):
            await fetch(browser, origin.url(host="shop.test"), proxy=address)
    with pytest.raises(ProxyFailed, match="mine") as failed:
        await fetch(browser, origin.url(host="shop.test"), proxy=address)
    assert "p@ss" not in str(failed.value) and "p%40ss" not in str(failed.value)
