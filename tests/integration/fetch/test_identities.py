"""Emulated browsers: their handshake, their headers, and no state shared between sessions."""

import asyncio
import gzip
from contextlib import suppress
from datetime import timedelta

import pytest

from shoal.core.errors import FetchError, InvalidSetting
from shoal.core.http import Identity, Request
from shoal.fetch.egress import Egress
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.http.engines import open_engine
from shoal.scrape.settings.sessions import BROWSERS
from tests.integration.fetch.hostile import page

LOOPBACK = "127.0.0.0/8"
OURS = "shoal-test/1.0"


@pytest.fixture
async def fetcher():
    fetching = open_engine(egress=Egress([LOOPBACK]), user_agent=OURS)
    yield fetching
    await fetching.close()


def identity_of(profile=None, key="a"):
    return Identity(key=key, cookies=CookieJar(), profile=profile)


class Greeting:
    """A TLS ClientHello: its ciphers, in order, and its extensions."""

    def __init__(self, record):
        hello = record[9:]  # after the headers of the record and of the message
        place = 34 + 1 + hello[34]
        size = int.from_bytes(hello[place : place + 2])
        words = hello[place + 2 : place + 2 + size]
        self.ciphers = [int.from_bytes(words[at : at + 2]) for at in range(0, size, 2)]

    @property
    def greases(self):
        """Whether it sends GREASE values, as Chromium and Safari do."""
        return any(cipher & 0x0F0F == 0x0A0A for cipher in self.ciphers)

    @property
    def plain(self):
        return tuple(cipher for cipher in self.ciphers if cipher & 0x0F0F != 0x0A0A)


async def greeting(fetching, profile):
    """Return the ClientHello of a fetcher to a TLS server that stays silent."""
    heard = asyncio.get_running_loop().create_future()

    async def listen(reader, writer):
        head = await reader.readexactly(5)
        if not heard.done():
            heard.set_result(head + await reader.readexactly(int.from_bytes(head[3:])))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    wearing = identity_of(profile) if profile else None
    with suppress(FetchError):
        await fetching.fetch(Request(url=url, timeout=timedelta(seconds=5), identity=wearing))
    server.close()
    return Greeting(await heard)


async def test_each_browser_greets_as_that_browser_does(fetcher):
    found = {name: await greeting(fetcher, name) for name in (None, "chrome", "firefox", "safari")}
    assert found["chrome"].greases and found["safari"].greases
    assert not found["firefox"].greases and not found[None].greases
    assert len({one.plain for one in found.values()}) == 4


async def test_the_headers_are_those_of_the_browser_and_not_ours(fetcher, origin):
    url = origin.on("/", page(gzip.compress(b"hello"), "Content-Encoding: gzip"))
    for name in BROWSERS:
        assert (await fetcher.fetch(Request(url=url, identity=identity_of(name)))).body == b"hello"
        headers = origin.asked[-1].headers
        agent = {"edge": "Edg/", "opera": "OPR/"}.get(name, f"{name.title()}/")
        assert agent in headers["user-agent"] and OURS not in headers["user-agent"]
        assert headers["accept-language"].startswith("en-US")
        assert "sec-fetch-mode" in headers
        assert ("sec-ch-ua" in headers) == (name in ("chrome", "edge", "opera"))


async def test_without_a_browser_we_say_who_we_are(fetcher, origin):
    url = origin.on("/", page())
    await fetcher.fetch(Request(url=url, identity=identity_of()))
    await fetcher.fetch(Request(url=url))
    assert [asked.headers["user-agent"] for asked in origin.asked] == [OURS, OURS]


async def test_cookies_of_one_identity_are_not_sent_by_another(fetcher, origin):
    url = origin.on("/", page(b"", "Set-Cookie: id=one"))
    one, other = identity_of(key="one"), identity_of(key="other")
    for visitor in (one, one, other, None):
        await fetcher.fetch(Request(url=url, identity=visitor))
    assert [asked.headers.get("cookie") for asked in origin.asked] == [None, "id=one", None, None]


async def test_the_second_engine_refuses_to_look_like_a_browser(origin):
    fetching = open_engine("aiohttp", egress=Egress([LOOPBACK]), user_agent=OURS)
    with pytest.raises(InvalidSetting, match="cannot emulate a browser"):
        await fetching.fetch(Request(url=origin.on("/", page()), identity=identity_of("chrome")))
    await fetching.close()
