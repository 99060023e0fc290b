"""The HTTP server of the site, also with malformed requests."""

import asyncio

import pytest

from shoal.demo.http import MAX_HEAD
from tests.unit.demo.client import Client


async def test_a_connection_serves_many_requests(client):
    replies = [await client.get("/c/lamps/") for _ in range(50)]
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1


async def test_head_sends_the_size_and_no_body(client):
    head = await client.get("/", method="HEAD")
    page = await client.get("/")
    assert head.headers["content-length"] == str(len(page.body))
    assert head.body == b""


async def test_pipelined_requests_are_served_in_order(client):
    await client.send(b"GET /p/s0-00011 HTTP/1.1\r\n\r\nGET /robots.txt HTTP/1.1\r\n\r\n")
    slow, robots = await client.reply(), await client.reply()
    assert b"S0-00011" in slow.body
    assert robots.headers["content-type"].startswith("text/plain")


async def test_a_request_may_arrive_in_pieces(client):
    for piece in (b"GE", b"T / HT", b"TP/1.1\r\nHost: x\r\n", b"\r", b"\n"):
        await client.send(piece)
        await asyncio.sleep(0)
    assert (await client.reply()).status == 200


async def test_an_absolute_request_target_is_accepted(site, client):
    assert (await client.get(f"{site.seeds[0]}robots.txt")).status == 200


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["http 1.0", "requested", "body"],
)
async def test_the_connection_is_closed_where_it_must_be(client, request_head):
    await client.send(request_head)
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"GET /\r\n\r\n", 400),
        (b"GET no-slash HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01 hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_HEAD, 431),
    ],
    ids=["method", "no version", "no slash", "not ascii", "tls", "long"],
)
async def test_malformed_requests_are_rejected_and_the_connection_is_closed(client, sent, status):
    await client.send(sent)
    assert (await client.reply()).status == status
    assert await client.is_closed()


async def test_a_client_that_disconnects_during_a_slow_page_does_no_harm(site):
    async with Client(site.seeds[0]) as other:
        await other.send(b"GET /p/s0-00011 HTTP/1.1\r\n\r\n")
    async with Client(site.seeds[0]) as client:
        assert (await client.get("/p/s0-00011")).status == 200


async def test_the_site_closes_while_clients_are_connected(site, client):
    await client.get("/")
    await client.send(b"GET /p/s0-00011 HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(5):
        await site.__aexit__()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.reply()
