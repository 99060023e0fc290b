"""Servers that break the protocol: each gives a page or one of our errors."""

import asyncio
import gzip
import time
from datetime import timedelta

import pytest

from shoal.core.errors import BrokenAnswer, ConnectFailed, DnsFailed, FetchError, FetchTimeout, TooLarge
from shoal.core.http import Request
from shoal.fetch.contract import Limits
from shoal.fetch.egress import Egress
from tests.integration.fetch.hostile import endless, page, raw

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"hello" * 100)
EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"  # of which a gzip stream may contain any number


def fetch(fetcher, url, seconds=5):
    return fetcher.fetch(Request(url=url, timeout=timedelta(seconds=seconds)))


def each(origin, replies):
    """Return the name and the URL of each reply, each at a host of its own: no connection is used again."""
    for number, (name, reply) in enumerate(replies.items()):
        origin.on(f"/{number}", reply)
        yield name, origin.url(f"/{number}", host=f"h{number}.test")


PAGES = {
    "no length": raw(OK + b"\r\nhello"),
    "HTTP/1.0": raw(b"HTTP/1.0 200 OK\r\n\r\nhello"),
    "no reason": raw(b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello"),
    "bare line feeds": raw(b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
    "continue first": raw(b"HTTP/1.1 100 Continue\r\n\r\n" + page()),
    "early hints first": raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + page()),
    "a folded header": page(b"hello", "X-A: b\r\n  folded"),
    "a header in UTF-8": page(b"hello", "X-A: h\u00c3\u00a9"),
    "150 headers": page(b"hello", *(f"X-{number}: y" for number in range(150))),
    "a header of 9 KB": page(b"hello", "X-A: " + "a" * 9_000),
    "a header of 64 KB": page(b"hello", "X-A: " + "a" * 65_536),
    "64 KB in four headers": page(b"hello", *(f"X-{number}: " + "a" * 16_384 for number in range(4))),
    "trailers": raw(CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
}

# What wreq tolerates, as browsers do; aiohttp does not, and raises.
FORGIVEN_BY_WREQ = {
    "a name with spaces": page(b"hello", "X Powered By: foo"),
    "a space before the colon": page(b"hello", "X-Foo : bar"),
    "a line without a colon": page(b"hello", "nonsense"),
    "the same length twice": raw(OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "a length and chunks": raw(
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    ),
    "more than announced": raw(OK + b"Content-Length: 5\r\n\r\nhello and more"),
    "900 headers": page(b"hello", *(f"X-{number}: y" for number in range(900))),
}

BROKEN = {
    "nothing at all": raw(),
    "half a status line": raw(b"HTTP/1.1 20"),
    "half a header": raw(OK + b"Content-Le"),
    "garbage": raw(b"\x00\x01\x02garbage\r\n\r\n"),
    "HTTP/0.9": raw(b"<html>hello</html>"),
    "HTTP/3.0": raw(b"HTTP/3.0 200 OK\r\n\r\nhi"),
    "another protocol": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a status of four digits": raw(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "a status of two digits": raw(b"HTTP/1.1 20 OK\r\n\r\n"),
    "a status of letters": raw(b"HTTP/1.1 abc OK\r\n\r\n"),
    "a zero byte in a header": page(b"hello", "X-A: b\0c"),
    "two lengths": raw(OK + b"Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello"),
    "a negative length": raw(OK + b"Content-Length: -5\r\n\r\nhello"),
    "a length of letters": raw(OK + b"Content-Length: abc\r\n\r\nhello"),
    "a length beyond all numbers": raw(OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello"),
    "less than announced": raw(OK + b"Content-Length: 100\r\n\r\nhello"),
    "chunks without an end": raw(CHUNKED + b"5\r\nhello\r\n"),
    "half a chunk": raw(CHUNKED + b"50\r\nhello"),
    "a chunk size of letters": raw(CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n"),
    "a chunk size beyond all numbers": raw(CHUNKED + b"ffffffffffffffffff\r\nhello"),
    "half a gzip": page(PACKED[:-9], "Content-Encoding: gzip"),
    "a gzip with a wrong sum": page(PACKED[:-8] + b"12345678", "Content-Encoding: gzip"),
    "no gzip": page(b"plain words", "Content-Encoding: gzip"),
    "no brotli": page(b"plain words", "Content-Encoding: br"),
    "no zstd": page(b"plain words", "Content-Encoding: zstd"),
    "nine layers": page(PACKED, "Content-Encoding: " + ", ".join(["gzip"] * 9)),
}

TOO_LARGE = {
    "a header of 1 MB": page(b"hello", "X-A: " + "a" * 1_048_576),
    "10,000 headers": page(b"hello", *(f"X-{number}: y" for number in range(10_000))),
    "headers without end": endless(OK, b"X-A: " + b"a" * 1_000 + b"\r\n"),
    "a header without end": endless(OK + b"X-A: ", b"a" * 1_000),
    "a status line without end": endless(b"HTTP/1.1 200 ", b"a" * 1_000),
    "a length of a terabyte": raw(OK + b"Content-Length: 1000000000000\r\n\r\nhello", stay=True),
    "a body without end": endless(OK + b"\r\n", b"a" * 65_536),
    "chunks without end": endless(CHUNKED, b"10000\r\n" + b"a" * 65_536 + b"\r\n"),
}

LATE = {
    "silence": raw(stay=True),
    "silence after the headers": raw(OK + b"Content-Length: 100\r\n\r\n", stay=True),
    "silence in the body": raw(OK + b"Content-Length: 100\r\n\r\nhello", stay=True),
    "a status line, byte by byte": endless(b"HTTP/1.1 200 ", b"O", 0.02),
    "headers, byte by byte": endless(OK, b"X", 0.02),
    "a body, byte by byte": endless(OK + b"\r\n", b"a", 0.02),
    "a gzip, byte by byte": endless(OK + b"Content-Encoding: gzip\r\n\r\n" + PACKED[:10], EMPTY_BLOCK, 0.02),
    "chunks of one byte": endless(CHUNKED, b"1\r\na\r\n", 0.02),
    "go on, go on": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "trailers, byte by byte": endless(CHUNKED + b"0\r\n", b"X", 0.02),
}


async def test_what_is_a_little_wrong_is_still_a_page(fetcher, origin):
    for name, url in each(origin, PAGES):
        response = await fetch(fetcher, url)
        assert (response.status, response.body) == (200, b"hello"), name


async def test_what_browsers_forgive_is_a_page_with_wreq_and_an_error_with_aiohttp(engine, fetcher, origin):
    for name, url in each(origin, FORGIVEN_BY_WREQ):
        if engine == "wreq":
            assert (await fetch(fetcher, url)).body == b"hello", name
        else:
            with pytest.raises((BrokenAnswer, TooLarge)):
                await fetch(fetcher, url)


async def test_what_is_no_answer_is_a_broken_one_and_a_plain_page_is_still_fetched(fetcher, origin):
    for name, url in each(origin, BROKEN):
        with pytest.raises(BrokenAnswer):
            pytest.fail(f"{name}: {await fetch(fetcher, url)}")
    assert (await fetch(fetcher, origin.on("/plain", page()))).body == b"hello"


async def test_a_reset_is_a_broken_answer(fetcher, origin):
    async def reset(wire):
        wire.reset()

    with pytest.raises(BrokenAnswer):
        await fetch(fetcher, origin.on("/", reset))


async def test_a_reset_in_the_body_is_a_broken_answer(fetcher, origin):
    async def reset(wire):
        await wire.send(OK + b"Content-Length: 100000\r\n\r\n" + b"x" * 5_000)
        await asyncio.sleep(0.05)
        wire.reset()

    with pytest.raises(BrokenAnswer):
        await fetch(fetcher, origin.on("/", reset))


@pytest.mark.parametrize("warm", [False, True], ids=["on a new connection", "on a used one"])
async def test_a_host_that_hangs_up_is_not_asked_again(fetcher, origin, warm):
    if warm:
        await fetch(fetcher, origin.on("/warm", page()))
    with pytest.raises(BrokenAnswer):
        await fetch(fetcher, origin.on("/", raw()))
    assert origin.paths.count("/") == 1


async def test_what_is_too_large_is_cut_off_and_a_plain_page_is_still_fetched(make_fetcher, origin):
    fetcher = make_fetcher(Limits(max_body=1 << 20))
    for name, url in each(origin, TOO_LARGE):
        with pytest.raises(TooLarge):
            pytest.fail(f"{name}: {await fetch(fetcher, url)}")
    assert (await fetch(fetcher, origin.on("/plain", page()))).body == b"hello"


async def test_the_limit_is_exact(make_fetcher, origin):
    fetcher = make_fetcher(Limits(max_body=1_000))
    assert len((await fetch(fetcher, origin.on("/a", page(b"x" * 1_000)))).body) == 1_000
    with pytest.raises(TooLarge, match=r"1,001 bytes; the limit is 1,000"):
        await fetch(fetcher, origin.on("/b", page(b"x" * 1_001)))
    with pytest.raises(TooLarge):
        await fetch(fetcher, origin.on("/c", page(gzip.compress(b"x" * 1_001), "Content-Encoding: gzip")))


async def test_a_body_that_is_announced_too_large_is_not_waited_for(fetcher, origin):
    url = origin.on("/", raw(OK + b"Content-Length: 33554433\r\n\r\n", stay=True))
    started = time.monotonic()
    with pytest.raises(TooLarge):
        await fetch(fetcher, url, seconds=30)
    assert time.monotonic() - started < 5


async def test_whatever_drags_on_is_cut_off_at_the_deadline(fetcher, origin):
    async def outcome(url):
        started = time.monotonic()
        with pytest.raises(FetchTimeout, match=r"within 0\.4 s"):
            await fetch(fetcher, url, seconds=0.4)
        return time.monotonic() - started

    took = await asyncio.gather(*(outcome(url) for _, url in each(origin, LATE)))
    assert 0.35 < min(took) <= max(took) < 3


async def test_a_refused_connection_is_one_that_failed(fetcher, origin):
    async with type(origin)() as gone:
        url = gone.url("/")
    with pytest.raises(ConnectFailed, match="refused") as caught:
        await fetch(fetcher, url)
    assert type(caught.value) is ConnectFailed


async def test_a_name_that_nobody_knows_failed_to_resolve(make_fetcher):
    fetcher = make_fetcher(egress=Egress())
    with pytest.raises(DnsFailed, match=r"nowhere\.invalid"):
        await fetch(fetcher, "http://nowhere.invalid/")


async def test_the_next_address_is_tried_when_the_first_refuses(make_fetcher, origin):
    async def two(name):
        return ["127.0.0.2", "127.0.0.1"]

    fetcher = make_fetcher(egress=Egress(["127.0.0.0/8"], lookup=two))
    assert (await fetch(fetcher, origin.on("/", page()).replace("127.0.0.1", "a.test"))).body == b"hello"


async def test_an_error_names_the_host_and_keeps_its_cause(fetcher, origin):
    url = origin.on("/", raw(b"garbage\r\n\r\n"))
    with pytest.raises(FetchError, match=f"127.0.0.1:{origin.port}") as caught:
        await fetch(fetcher, f"{url}?token=secret")
    assert caught.value.__cause__ is not None
    assert "secret" not in str(caught.value)
