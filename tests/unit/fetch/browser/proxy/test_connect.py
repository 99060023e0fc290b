"""The browser proxy connects to checked addresses, and not to what a name resolves to meanwhile."""

import asyncio
import socket
from ipaddress import ip_address

import pytest

from shoal.core.errors import ConnectFailed
from shoal.fetch.browser.proxy.connect import dial
from shoal.fetch.egress import AllowedTarget


def target(*addresses: str) -> AllowedTarget:
    name = "rebound.test"
    return AllowedTarget(f"http://{name}/", name, name, tuple(map(ip_address, addresses)), is_literal=False)


@pytest.fixture
def looked_up(monkeypatch):
    """The names that were looked up; each resolves to this machine."""
    names = []

    def lookup(name, port, *args, **more):
        names.append(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return names


@pytest.fixture
async def port():
    async def serve(reader, writer):
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_no_name_is_looked_up_and_the_next_address_is_tried_where_one_does_not_answer(port, looked_up):
    looked_up.clear()
    reader, writer = await dial(target("127.0.0.2", "127.0.0.1"), port)
    assert await reader.read() == b"hello"
    writer.close()
    assert looked_up == []


async def test_where_no_checked_address_answers_the_name_is_not_asked_instead(port, looked_up):
    looked_up.clear()
    for addresses in ((), ("127.0.0.2",)):
        with pytest.raises(ConnectFailed):
            await dial(target(*addresses), port)
    assert looked_up == []
