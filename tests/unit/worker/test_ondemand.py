"""The server of a listening worker accepts signed requests only; no client can stall it or overload it."""

import asyncio
import time

import pytest

from shoal.core.errors import InvalidSetting
from shoal.worker.ipc import http_server
from shoal.worker.ipc.calls import NONCE, SIGNATURE, Listening, Signer
from shoal.worker.ipc.http_server import MAX_BODY_BYTES, MAX_HEAD_BYTES, HttpReply
from shoal.worker.ondemand import CallServer

HERE = Listening(host="127.0.0.1")


@pytest.fixture
def signer():
    return Signer(b"a shared secret")


@pytest.fixture
async def server(signer):
    async def handle(method, path, body):
        handled.append((method, path, body))
        return HttpReply(200, body[::-1])

    handled = []
    async with CallServer(HERE, signer, handle) as server:
        server.handled = handled
        yield server


async def send(server, *parts):
    """Send bytes to the server, and return everything that it sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    try:
        for part in parts:
            writer.write(part)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def signed_request(signer, method="POST", path="/w/call", body=b"abc", **more):
    fields = signer.sign_request(method, path, body, time.time()) | {"content-length": str(len(body))} | more
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body, fields


async def test_signed_requests_get_signed_responses_one_after_the_other(server, signer):
    (first, fields), (second, _) = signed_request(signer), signed_request(signer, body=b"xy")
    received = await send(server, first, second)
    assert received.count(b"200 OK") == 2 and b"\r\n\r\ncba" in received and received.endswith(b"\r\n\r\nyx")
    signature = received.split(f"{SIGNATURE}: ".encode())[1][:64].decode()
    signer.verify_response(fields[NONCE], 200, b"cba", signature)


async def test_unsigned_requests_are_rejected(server):
    received = await send(server, b"POST /w/call HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc")
    assert b"401" in received and not server.handled
    received = await send(server, signed_request(Signer(b"another secret"))[0])
    assert b"401" in received and not server.handled


async def test_the_body_of_an_unsigned_request_is_not_read(server):
    head, _ = signed_request(Signer(b"another secret"), body=b"x" * 1_000_000)
    assert b"401" in await send(server, head[:-1_000_000])


@pytest.mark.parametrize(
    "more",
    [
        {"content-length": str(MAX_BODY_BYTES + 1)},
        {"content-length": "-1"},
        {"content-length": "9" * 5000},
        {"content-length": "٣"},
        {"transfer-encoding": "chunked"},
    ],
)
async def test_bodies_without_a_valid_length_are_rejected(server, signer, more):
    assert b"400" in await send(server, signed_request(signer, **{"content-length": "3"} | more)[0])
    assert not server.handled


@pytest.mark.parametrize("head", [b"BREW / HTTP/1.1", b"GET", b"\x00\xff\xfe", b"GET  / HTTP/1.1"])
async def test_a_malformed_request_is_rejected(server, head):
    assert (await send(server, head + b"\r\n\r\n")).startswith(b"HTTP/1.1 400")


async def test_an_endless_head_closes_the_connection(server):
    assert await send(server, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * MAX_HEAD_BYTES) == b""


async def test_a_slow_client_is_disconnected(server, signer, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    writer.write(signed_request(signer)[0][:-1])
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_one_connection_too_many_is_closed(server, signer, monkeypatch):
    monkeypatch.setattr(server._server, "_max_connections", 0)
    assert await send(server, signed_request(signer)[0]) == b""


@pytest.mark.parametrize("begun", [b"", b"GET /"])
async def test_silent_connections_make_room_for_one_that_sends_a_request(server, signer, monkeypatch, begun):
    monkeypatch.setattr(server._server, "_max_connections", 2)
    silent = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
        writer.write(begun)
        silent.append((reader, writer))
    assert await asyncio.wait_for(silent[0][0].read(), 5) == b""
    assert (await send(server, signed_request(signer)[0])).startswith(b"HTTP/1.1 200")
    assert await asyncio.wait_for(silent[1][0].read(), 5) == b""
    for _, writer in silent:
        writer.close()


async def test_workers_of_one_machine_listen_at_the_ports_after_the_first(server, signer):
    taken = int(server.address.rpartition(":")[2])
    with pytest.raises(InvalidSetting, match="Name another port"):
        await CallServer(Listening(host="127.0.0.1", port=taken), signer, None).__aenter__()
    async with CallServer(Listening(host="127.0.0.1", port=taken, ports=20), signer, None) as second:
        assert taken < int(second.address.rpartition(":")[2]) < taken + 20


async def test_a_worker_is_announced_where_callers_reach_it(signer):
    listening = Listening(host="127.0.0.1", announce="https://here.example/{port}")
    async with CallServer(listening, signer, None) as server:
        assert server.address.startswith("https://here.example/")
