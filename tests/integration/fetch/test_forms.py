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


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other"])
async def test_the_page_behind_a_form_is_asked_for_without_it(fetcher, origin, status):
    received = []
    origin.on("/home", reading(received, page(b"home")))
    url = origin.on("/login", reading(received, redirect("/home", "Set-Cookie: id=7", status=status)))
    assert (await fetcher.fetch(posting(url))).body == b"home"
    assert received == [("POST", FORM), ("GET", b"")]
    assert origin.asked[1].headers["cookie"] == "id=7"
    assert "content-type" not in origin.asked[1].headers


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
async def test_a_form_goes_on_within_its_origin_where_its_host_asks_for_it(fetcher, origin, status):
    received = []
    origin.on("/v2", reading(received, page()))
    url = origin.on("/login", reading(received, redirect("/v2", status=status)))
    await fetcher.fetch(posting(url))
    assert received == [("POST", FORM)] * 2


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
async def test_a_form_is_not_sent_on_to_another_host(fetcher, origin, status):
    received = []
    origin.on("/login", reading(received, redirect(origin.url("/steal", host="evil.test"), status=status)))
    with pytest.raises(OutOfScope) as caught:
        await fetcher.fetch(posting(origin.url("/login")))
    assert received == [("POST", FORM)]
    assert "hunter2" not in str(caught.value)


async def test_a_form_whose_answer_is_lost_is_not_sent_again(fetcher, origin):
    received = []

    async def rude(wire: Wire) -> None:
        received.append(await wire.reader.readexactly(len(FORM)))
        wire.reset()

    with pytest.raises(BrokenAnswer):
        await fetcher.fetch(posting(origin.on("/login", rude)))
    assert received == [FORM]


async def test_a_form_on_a_connection_that_was_used_before_is_not_sent_twice_either(fetcher, origin):
    received = []
    await fetcher.fetch(Request(url=origin.on("/", page())))

    async def rude(wire: Wire) -> None:
        received.append(await wire.reader.readexactly(len(FORM)))
        wire.reset()

    with pytest.raises(BrokenAnswer):
        await fetcher.fetch(posting(origin.on("/login", rude)))
    assert received == [FORM]
