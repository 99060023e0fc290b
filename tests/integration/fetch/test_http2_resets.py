"""A response over HTTP/2 that breaks off is never taken for a page."""

import asyncio
import gzip
import random
import struct
from dataclasses import replace
from datetime import timedelta

import pytest

from shoal.core.errors import FetchError
from shoal.core.http import Request
from tests.integration.fetch.http2 import (
    CANCEL,
    CLOSE,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GZIP,
    HEADERS,
    INTERNAL_ERROR,
    NO_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    STATUS_200,
    STATUS_304,
    Http2Origin,
    content_length,
)

HEAD = (HEADERS, END_HEADERS, STATUS_200)
LONG_HEAD = (HEADERS, END_HEADERS, STATUS_200 + content_length(1000))
HALF = (DATA, 0, b"<html><body>half of a page")
BROKEN = {
    **{
        f"reset {name} in the body": [HEAD, HALF, (RST_STREAM, 0, struct.pack(">I", code))]
        for name, code in {"INTERNAL_ERROR": INTERNAL_ERROR, "CANCEL": CANCEL}.items()
    },
    # Without a length, wreq takes these for the end of the body, and nothing shows that they are not.
    "reset NO_ERROR in a body of known length": [
        LONG_HEAD,
        HALF,
        (RST_STREAM, 0, struct.pack(">I", NO_ERROR)),
    ],
    "goaway in a body of known length": [
        LONG_HEAD,
        HALF,
        (GOAWAY, 0, struct.pack(">II", 0, NO_ERROR)),
        CLOSE,
    ],
    **{
        f"reset NO_ERROR in {name}": [
            (HEADERS, END_HEADERS, STATUS_200 + GZIP),
            (DATA, 0, gzip.compress(random.Random(1).randbytes(5_000), mtime=0)[:size]),
            (RST_STREAM, 0, struct.pack(">I", NO_ERROR)),
        ]
        for name, size in {"the middle of gzip": 3_000, "the trailer of gzip": -4}.items()
    },
    "refused": [(RST_STREAM, 0, struct.pack(">I", REFUSED_STREAM))],
    "reset before the body": [HEAD, (RST_STREAM, 0, struct.pack(">I", INTERNAL_ERROR))],
    "closed in the body": [HEAD, HALF, CLOSE],
    "shorter than announced": [
        LONG_HEAD,
        (DATA, END_STREAM, b"too little"),
    ],
}


class Sink:
    """Takes every body, and forgets it."""

    def begin(self, status, headers):
        return 1_000_000

    async def write(self, data):
        pass


@pytest.fixture(params=["wreq"])
def engine(request):
    """The engine that speaks HTTP/2."""
    return request.param


def request_of(origin):
    return Request(url=origin.url, timeout=timedelta(seconds=20))


async def test_a_whole_response_is_a_page(make_fetcher, certificate):
    frames = [HEAD, HALF, (DATA, END_STREAM, b", and the other")]
    async with Http2Origin(certificate.context(), frames) as origin:
        found = await make_fetcher(authorities=certificate.file).fetch(request_of(origin))
    assert found.body == b"<html><body>half of a page, and the other"


@pytest.mark.parametrize("how", BROKEN)
async def test_a_response_that_breaks_off_is_an_error_that_names_the_host(make_fetcher, certificate, how):
    """So is that of a download."""
    fetcher = make_fetcher(authorities=certificate.file)
    async with Http2Origin(certificate.context(), BROKEN[how]) as origin:
        with pytest.raises(FetchError, match=r"127\.0\.0\.1:\d+: ") as caught:
            await fetcher.fetch(request_of(origin))
        assert "wreq::" not in str(caught.value)
        assert origin.requests <= (3 if how == "refused" else 1)  # what was refused has not been processed
        with pytest.raises(FetchError, match=r"127\.0\.0\.1:\d+: "):
            await fetcher.fetch(replace(request_of(origin), save=Sink()))


@pytest.mark.parametrize(("method", "status"), [("HEAD", STATUS_200), ("GET", STATUS_304)])
async def test_a_response_without_a_body_may_announce_one(make_fetcher, certificate, method, status):
    frames = [(HEADERS, END_HEADERS | END_STREAM, status + content_length(1000))]
    async with Http2Origin(certificate.context(), frames) as origin:
        asked = Request(
            url=origin.url,
            timeout=timedelta(seconds=20),
            post=b"" if method == "HEAD" else None,
            method=method,
        )
        found = await make_fetcher(authorities=certificate.file).fetch(asked)
    assert (found.body, found.headers["content-length"]) == (b"", "1000")


async def test_a_body_that_a_host_refuses_is_sent_once(make_fetcher, certificate):
    for post in (b"", b"x" * 300_000):
        async with Http2Origin(certificate.context(), BROKEN["refused"]) as origin:
            with pytest.raises(FetchError, match=r"127\.0\.0\.1:\d+: "):
                await make_fetcher(authorities=certificate.file).fetch(replace(request_of(origin), post=post))
        assert origin.requests == 1


@pytest.mark.parametrize("post", [b"", b"x" * 300_000], ids=["empty", "long"])
async def test_a_body_over_tls_has_its_length_also_where_the_host_has_closed_idle_connections(
    make_fetcher, certificate, post
):
    received = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        received.append((fields.get(b"content-length"), await reader.readexactly(len(post))))
        assert b"transfer-encoding" not in fields
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")  # keeps the connection, as it seems
        await writer.drain()
        writer.close()

    context = certificate.context()
    context.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        fetcher = make_fetcher(authorities=certificate.file)
        for _ in range(3):
            found = await fetcher.fetch(Request(url=url, timeout=timedelta(seconds=20), post=post))
            assert found.body == b"ok"
    assert received == [(str(len(post)).encode(), post)] * 3
