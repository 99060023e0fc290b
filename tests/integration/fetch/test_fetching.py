"""Pages that are fetched correctly, with every engine."""

import asyncio
import gzip
import resource
import socket
import zlib
from contextlib import ExitStack, suppress
from datetime import timedelta

import brotli
import pytest
from backports import zstd

from shoal.core.errors import BrokenAnswer, ConnectFailed, FetchError, NoFilesLeft, OutOfScope
from shoal.core.http import Request, Response
from shoal.core.urls import canonical
from shoal.fetch.egress import Egress
from tests.integration.fetch.conftest import LOOPBACK, USER_AGENT, loopback
from tests.integration.fetch.hostile import page, raw, redirect

TEXT = b"A page of some words, " * 500


def fetch(fetcher, url, **more):
    return fetcher.fetch(Request(url=url, timeout=timedelta(seconds=10), **more))


async def test_a_page_is_fetched(fetcher, origin):
    url = origin.on("/a", page(TEXT, "Content-Type: text/html", "X-Twice: 1", "x-twice: 2"))
    response = await fetch(fetcher, f"{url}?b=c#d")
    assert (response.url, response.status, response.body) == (f"{url}?b=c", 200, TEXT)
    assert response.headers["content-TYPE"] == "text/html"
    assert response.headers.all("X-Twice") == ["1", "2"]
    assert response.headers["x-twice"] == "1"
    assert ("content-type", "text/html") in [(name.lower(), value) for name, value in response.headers.fields]
    assert "nothing" not in response.headers
    assert response.headers.get("not a name\n") is None
    assert len(response.headers) == len(list(response.headers)) == 3
    assert response.redirects == ()
    assert timedelta(0) < response.elapsed < timedelta(seconds=10)


async def test_requests_send_the_user_agent_and_the_accepted_encodings(engine, fetcher, origin):
    await fetch(fetcher, origin.on("/", page()))
    (asked,) = origin.asked
    assert asked.line == "GET / HTTP/1.1"
    assert asked.headers["user-agent"] == USER_AGENT
    assert asked.headers["host"] == f"127.0.0.1:{origin.port}"
    accepted = {"gzip", "br", "zstd"} if engine == "wreq" else {"gzip"}
    assert {one.strip() for one in asked.headers["accept-encoding"].split(",")} == accepted
    assert "text/html" in asked.headers["accept"]
    assert not {"cookie", "authorization", "referer"} & asked.headers.keys()


async def test_the_callers_headers_are_sent(fetcher, origin):
    headers = {"Authorization": "Bearer x", "User-Agent": "mine", "Accept": "text/plain"}
    await fetch(fetcher, origin.on("/", page()), headers={**headers, "X-Name": "Jürgen"})
    (asked,) = origin.asked
    assert {name: asked.headers[name.lower()] for name in headers} == headers
    assert asked.headers["x-name"].encode("latin-1").decode() == "Jürgen"


async def test_any_status_is_an_answer(fetcher, origin):
    for status in (204, 206, 304, 400, 404, 410, 418, 429, 500, 503, 599, 600, 999):
        response = await fetch(fetcher, origin.on("/", page(b"", status=f"{status} Whatever")))
        assert response.status == status


async def test_a_body_is_unpacked(fetcher, origin):
    """How each encoding is decoded is tested without a network."""
    for encoding, pack in (
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
        ("utf-8", bytes),
    ):
        url = origin.on("/", page(pack(TEXT), f"Content-Encoding: {encoding}"))
        assert (await fetch(fetcher, url)).body == TEXT


async def test_wreq_unpacks_what_aiohttp_does_not_accept(engine, fetcher, origin):
    for encoding, pack in (("br", brotli.compress), ("zstd", zstd.compress)):
        url = origin.on("/", page(pack(TEXT), f"Content-Encoding: {encoding}"))
        if engine == "wreq":
            assert (await fetch(fetcher, url)).body == TEXT
        else:
            with pytest.raises(BrokenAnswer, match="did not accept"):
                await fetch(fetcher, url)


async def test_an_empty_body_needs_no_unpacking(fetcher, origin):
    for status in ("200 OK", "304 Not Modified"):
        url = origin.on("/", page(b"", "Content-Encoding: gzip", status=status))
        assert (await fetch(fetcher, url)).body == b""


async def test_a_body_may_come_in_chunks(fetcher, origin):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    url = origin.on(
        "/", raw(head, b"5\r\nhello\r\n", b"6;x=y\r\n world\r\n", b"0\r\nX-Trailer: z\r\n\r\n", pause=0.01)
    )
    assert (await fetch(fetcher, url)).body == b"hello world"


async def test_a_connection_is_used_again(fetcher, origin):
    url = origin.on("/", page(TEXT))
    for _ in range(5):
        await fetch(fetcher, url)
    assert (len(origin.asked), origin.connections) == (5, 1)


async def test_a_connection_is_used_again_after_a_redirect(fetcher, origin):
    origin.on("/old", redirect("/new"))
    origin.on("/new", page())
    for _ in range(5):
        assert (await fetch(fetcher, origin.url("/old"))).redirects == (origin.url("/old"),)
    assert len(origin.asked) == 10
    assert origin.connections <= 2


async def test_many_pages_are_fetched_at_once(fetcher, origin):
    urls = [origin.on(f"/{number}", page(b"page %d" % number)) for number in range(60)]
    responses = await asyncio.gather(*(fetch(fetcher, url) for url in urls))
    assert [response.body for response in responses] == [b"page %d" % number for number in range(60)]


async def test_a_host_that_closed_the_connection_is_asked_on_a_new_one(fetcher, origin):
    url = origin.on("/", raw(page()))
    for _ in range(5):
        assert (await fetch(fetcher, url)).body == b"hello"
        await asyncio.sleep(0.02)
    assert origin.connections == 5


async def test_redirects_are_followed_from_host_to_host(fetcher, origin):
    origin.on("/a", redirect(origin.url("/b", host="b.test"), status="301 Moved"))
    origin.on("/b", redirect("/c?x=y", status="308 Moved"))
    origin.on("/c", page())
    response = await fetch(fetcher, origin.url("/a", host="a.test"))
    assert response.url == origin.url("/c?x=y", host="b.test")
    assert response.redirects == (origin.url("/a", host="a.test"), origin.url("/b", host="b.test"))
    assert [asked.headers["host"].split(":")[0] for asked in origin.asked] == ["a.test", "b.test", "b.test"]


async def test_a_location_in_utf_8_is_understood(fetcher, origin):
    origin.on("/a", redirect("/caf\u00c3\u00a9"))
    origin.on("/caf%C3%A9", page())
    assert (await fetch(fetcher, origin.url("/a"))).url == origin.url("/caf%C3%A9")


async def test_cookies_go_back_to_their_host_alone(fetcher, origin):
    """`test` is a top-level domain, so a cookie for all of it is ignored."""
    origin.on(
        "/set",
        page(b"", "Set-Cookie: id=1; Path=/", "Set-Cookie: all=1; Domain=test", "Set-Cookie: t=\u00c3\u00bc"),
    )
    origin.on("/", page())
    await fetch(fetcher, origin.url("/set", host="a.test"))
    await fetch(fetcher, origin.url("/", host="a.test"))
    await fetch(fetcher, origin.url("/", host="b.test"))
    assert origin.asked[1].headers["cookie"] == "id=1; t=\u00c3\u00bc"
    assert "cookie" not in origin.asked[2].headers


async def test_a_cookie_that_a_redirect_sets_is_sent_on_the_next_hop(fetcher, origin):
    origin.on("/a", redirect("/b", "Set-Cookie: seen=1; Path=/"))
    origin.on("/b", page())
    await fetch(fetcher, origin.url("/a"))
    assert origin.asked[1].headers["cookie"] == "seen=1"


async def test_proxies_of_the_environment_are_ignored(make_fetcher, origin, monkeypatch):
    async with type(origin)() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url("/"))
        assert (await fetch(make_fetcher(), origin.on("/", page()))).body == b"hello"
        assert proxy.connections == 0


ODD_NAMES = """
    a.test a-b.test a_b.test _dmarc.a.test xn--bcher-kva.test 1a.test a1.test 0x7f.a.test 127.0.0.1.a.test
    a!b.test a$b.test a&b.test a'b.test a(b).test a*b.test a+b.test a,b.test a;b.test a=b.test a~b.test
    a`b.test a{b}.test localhost.test
    -a.test a-.test --.test ..a.test a..test XN--BCHER-KVA.test bücher.test \uff21\uff22\uff23.test a。test
    single x.y.z.w.v.u.test
"""


async def test_the_engine_asks_for_the_very_name_that_was_checked(fetcher, origin):
    """No name below exists: an engine that parsed another one out of the URL would not find it."""
    origin.on("/", page())
    for name in ODD_NAMES.split():
        try:
            response = await fetch(fetcher, origin.url("/", host=name))
        except OutOfScope as refused:
            assert "URL" in str(refused)
        else:
            assert response.body == b"hello"
            assert origin.asked[-1].headers["host"] == response.url.split("/")[2]


ESCAPES = "%00 %0A %20 %25 %2F %2E%2E %41 %7f %zz % .. ./ // + &=&"


async def test_a_url_is_asked_for_letter_by_letter(fetcher, origin):
    """Whatever characters a canonical URL holds, none is dropped, escaped or unescaped on the way."""
    letters = [chr(code) for code in (*range(0x21, 0x7F), 0xE9, 0x1F600)]
    for text in (*letters, *ESCAPES.split()):
        for place in ("/a{}b?{}c", "/{}"):
            url = canonical(origin.url(place.replace("{}", text)))
            await fetch(fetcher, url)
            assert origin.url(origin.asked[-1].path) == url


async def test_a_fetch_that_is_given_up_hangs_up(make_fetcher, origin):
    gone = asyncio.Event()

    async def hang(wire):
        await wire.until_gone()
        gone.set()

    task = asyncio.create_task(fetch(make_fetcher(), origin.on("/", hang)))
    while not origin.asked:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 5)


async def test_a_fetcher_that_was_closed_says_so(make_fetcher, origin):
    fetcher = make_fetcher()
    url = origin.on("/", page())
    await fetch(fetcher, url)
    await fetcher.close()
    with pytest.raises(ConnectFailed, match="has been closed"):
        await fetch(fetcher, url)


async def test_a_fetch_that_is_under_way_when_the_fetcher_closes_is_not_cancelled(make_fetcher, origin):
    fetcher, may_answer = make_fetcher(), asyncio.Event()

    async def wait(wire):
        await may_answer.wait()
        await wire.send(page())

    task = asyncio.create_task(fetch(fetcher, origin.on("/", wait)))
    while not origin.asked:
        await asyncio.sleep(0.01)
    await fetcher.close()
    may_answer.set()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(result, Response | FetchError)


async def test_closing_closes_every_connection(make_fetcher, origin):
    fetcher = make_fetcher(egress=Egress([LOOPBACK], lookup=loopback))
    url = origin.on("/", page())
    await fetch(fetcher, url)
    await fetch(fetcher, origin.url("/", host="a.test"))
    await fetcher.close()
    for _ in range(200):
        if not origin._visits:
            break
        await asyncio.sleep(0.01)
    assert not origin._visits


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-name.invalid"])
async def test_a_page_for_which_no_file_can_be_opened_is_postponed(make_fetcher, origin, host):
    url = origin.on("/", page()).replace("127.0.0.1", host)
    fetcher = make_fetcher(egress=Egress([LOOPBACK]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        with suppress(OSError):
            while True:
                stack.enter_context(socket.socket())
        with pytest.raises(NoFilesLeft):
            await fetch(fetcher, url)
