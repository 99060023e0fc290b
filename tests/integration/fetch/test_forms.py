"""Forms: sent once, and their data goes to no other host."""

import pytest

from shoal.core.errors import BrokenAnswer, OutOfScope
from shoal.core.http import Request
from tests.integration.fetch.hostile import Wire, page, redirect

FORM = b"user=me&password=hunter2"
KIND = {"content-type": "application/x-www-form-urlencoded"}


def posting(url):
    return Request(url=url, post=FORM, headers=KIND)


def reading(received, answer):
    """Return a reply that reads the body first."""

    async def reply(wire: Wire) -> None:
        size = int(wire.asked.headers.get("content-length", "0"))
        received.append((wire.asked.line.split(" ")[0], await wire.reader.readexactly(size)))
        await wire.send(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    return reply


async def test_a_form_reaches_its_host_as_it_is(fetcher, origin):
    received = []
    response = await fetcher.fetch(posting(origin.on("/login", reading(received, page(b"welcome")))))
    assert received == [("POST", FORM)]
    assert response.body == b"welcome"
    assert origin.asked[0].headers["content-type"] == KIND["content-type"]


async def test_the_page_behind_a_form_is_asked_for_without_it(fetcher, origin):
    for status in ("301 Moved", "302 Found", "303 See Other"):
        received = []
        origin.on("/home", reading(received, page(b"home")))
        url = origin.on("/login", reading(received, redirect("/home", "Set-Cookie: id=7", status=status)))
        assert (await fetcher.fetch(posting(url))).body == b"home"
        assert received == [("POST", FORM), ("GET", b"")]
        assert origin.asked[-1].headers["cookie"] == "id=7"
        assert "content-type" not in origin.asked[-1].headers


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
async def test_a_form_goes_on_within_its_origin_and_to_no_other_host(fetcher, origin, status):
    received = []
    origin.on("/v2", reading(received, page()))
    await fetcher.fetch(posting(origin.on("/login", reading(received, redirect("/v2", status=status)))))
    assert received == [("POST", FORM)] * 2
    origin.on("/login", reading(received, redirect(origin.url("/steal", host="evil.test"), status=status)))
    with pytest.raises(OutOfScope) as caught:
        await fetcher.fetch(posting(origin.url("/login")))
    assert received == [("POST", FORM)] * 3
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("is_used", [False, True], ids=["on a new connection", "on a used one"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_body_whose_answer_is_lost_is_not_sent_again(fetcher, origin, method, is_used):
    received = []
    if is_used:
        await fetcher.fetch(Request(url=origin.on("/", page())))

    async def rude(wire: Wire) -> None:
        received.append(await wire.reader.readexactly(len(FORM)))
        wire.reset()

    with pytest.raises(BrokenAnswer):
        await fetcher.fetch(Request(url=origin.on("/login", rude), post=FORM, headers=KIND, method=method))
    assert received == [FORM]


async def test_an_empty_form_says_that_it_is_empty(fetcher, origin):
    received = []
    await fetcher.fetch(Request(url=origin.on("/login", reading(received, page(b"welcome"))), post=b""))
    assert received == [("POST", b"")]
    assert origin.asked[0].headers["content-length"] == "0"  # without it, some servers respond with 411


async def test_every_method_reaches_its_host(fetcher, origin):
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
        for body in (b"",) if method == "HEAD" else (b"", FORM):
            received = []
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" if method == "HEAD" else page(b"done")
            url = origin.on("/thing", reading(received, answer))
            response = await fetcher.fetch(Request(url=url, post=body, method=method))
            assert received == [(method, body)]
            assert response.body == (b"" if method == "HEAD" else b"done")


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("PUT", "302 Found", ("PUT", FORM)),
        ("PUT", "303 See Other", ("GET", b"")),
        ("HEAD", "302 Found", ("HEAD", b"")),
    ],
)
async def test_a_method_goes_on_or_becomes_a_get(fetcher, origin, method, status, then):
    received, body = [], b"" if method == "HEAD" else FORM
    origin.on("/v2", reading(received, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    moved = f"HTTP/1.1 {status}\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n".encode()
    url = origin.on("/v1", reading(received, moved))
    await fetcher.fetch(Request(url=url, post=body, method=method))
    assert received == [(method, body), then]


async def test_a_method_that_changes_something_is_not_sent_to_another_host(fetcher, origin):
    for method in ("PUT", "DELETE", "PATCH"):
        away = redirect(origin.url("/steal", host="evil.test"), status="302 Found")
        with pytest.raises(OutOfScope, match=f"redirects a {method} to another host"):
            await fetcher.fetch(Request(url=origin.on("/away", reading([], away)), post=FORM, method=method))
