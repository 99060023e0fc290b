"""What is sent through Tor, when a circuit is renewed, and what becomes of a request when Tor dies."""

import asyncio
import re
from datetime import timedelta

import pytest

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    FetchTimeout,
    OutOfScope,
    ProxyFailed,
    RobotsDenied,
    TorDown,
)
from shoal.core.http import Identity, Proxy, Request, Response
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.tor.fetcher import TorFetcher, new_circuit

URL = "https://shop.test/a"


class FakeTor:
    def __init__(self):
        self.is_up, self.is_alive, self.renewed, self.closed = True, True, 0, False
        self.restarts = 0

    def proxy(self, name):
        if not self.is_up:
            raise self.down()
        return Proxy(name="tor", url=f"socks5h://{name}:shoal@127.0.0.1:9")

    def down(self):
        return TorDown("it died", timedelta(seconds=2))

    async def is_working(self):
        return self.is_alive

    async def renew(self):
        self.renewed += 1

    async def close(self):
        self.closed = True


class Inner:
    """Records its requests, and responds or fails as the test sets it."""

    def __init__(self):
        self.asked, self.answer, self.closed = [], Response(url=URL, status=200, body=b"page"), False

    async def fetch(self, request):
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.closed = True

    @property
    def proxies(self):
        return [request.proxy.url for request in self.asked]


@pytest.fixture
def tor():
    return FakeTor()


@pytest.fixture
def inner():
    return Inner()


@pytest.fixture
async def fetcher(inner, tor):
    fetcher = TorFetcher(inner, tor, block=re.compile("captcha"))
    yield fetcher
    await fetcher.close()


async def test_every_request_has_a_proxy_that_resolves_names_at_the_other_end(fetcher, inner):
    await fetcher.fetch(Request(url=URL))
    await fetcher.fetch(Request(url=URL, proxy=Proxy(name="other", url="http://other:1")))
    assert all(proxy.startswith("socks5h://") for proxy in inner.proxies)
    assert len(set(inner.proxies)) == 1


async def test_while_tor_is_down_no_request_is_sent(fetcher, inner, tor):
    tor.is_up = False
    with pytest.raises(TorDown, match="Tor is not running: it died") as raised:
        await fetcher.fetch(Request(url=URL))
    assert raised.value.after == timedelta(seconds=2)
    assert inner.asked == []


@pytest.mark.parametrize("kind", [ConnectFailed, BrokenAnswer, FetchTimeout])
async def test_a_failure_is_the_hosts_while_tor_is_alive_and_the_next_goes_by_another_circuit(
    fetcher, inner, kind
):
    inner.answer = kind("no")
    for _ in range(2):
        with pytest.raises(kind):
            await fetcher.fetch(Request(url=URL))
    assert len(set(inner.proxies)) == 2


@pytest.mark.parametrize("error", [ConnectFailed("no"), BrokenAnswer("no"), ProxyFailed("tor", "refused")])
async def test_a_failure_is_not_the_hosts_when_tor_has_died(fetcher, inner, tor, error):
    inner.answer, tor.is_alive = error, False
    with pytest.raises(TorDown):
        await fetcher.fetch(Request(url=URL))


async def test_a_failure_is_not_the_hosts_when_tor_has_died_and_is_up_again(fetcher, inner, tor):
    async def outlive(request):
        tor.restarts += 1
        raise FetchTimeout("no")

    inner.fetch = outlive
    with pytest.raises(TorDown):
        await fetcher.fetch(Request(url=URL))


async def test_what_may_not_be_repeated_fails_when_tor_dies(fetcher, inner, tor):
    inner.answer, tor.is_alive = BrokenAnswer("no"), False
    with pytest.raises(BrokenAnswer):
        await fetcher.fetch(Request(url=URL, on_sent=bool))


@pytest.mark.parametrize("error", [OutOfScope("no"), RobotsDenied("no")])
async def test_a_decision_of_ours_renews_nothing(fetcher, inner, error):
    inner.answer = error
    for _ in range(2):
        with pytest.raises(type(error)):
            await fetcher.fetch(Request(url=URL))
    assert len(set(inner.proxies)) == 1


@pytest.mark.parametrize(
    ("status", "body", "circuits"),
    [(200, b"page", 1), (404, b"", 1), (500, b"", 1), (403, b"", 2), (429, b"", 2), (200, b"a captcha", 2)],
)
async def test_only_a_block_renews_the_circuit(fetcher, inner, status, body, circuits):
    inner.answer = Response(url=URL, status=status, body=body)
    assert [(await fetcher.fetch(Request(url=URL))).status for _ in range(2)] == [status, status]
    assert len(set(inner.proxies)) == circuits


async def test_a_session_keeps_its_identity_and_has_circuits_of_its_own(fetcher, inner):
    me = Identity(key="me", cookies=CookieJar())
    await fetcher.fetch(Request(url=URL, identity=me))
    await fetcher.fetch(Request(url=URL))
    assert inner.asked[0].identity is me and inner.asked[1].identity is not me
    assert len(set(inner.proxies)) == 2


async def test_all_circuits_are_renewed_on_demand(fetcher, inner, tor):
    for url in (URL, "https://other.test/"):
        await fetcher.fetch(Request(url=url))
    await fetcher.renew_all()
    for url in (URL, "https://other.test/"):
        await fetcher.fetch(Request(url=url))
    assert len(set(inner.proxies)) == 4 and tor.renewed == 1


async def test_the_name_of_a_circuit_is_in_no_error_and_no_repr(fetcher, inner):
    await fetcher.fetch(Request(url=URL))
    name = inner.proxies[0].partition("//")[2].partition(":")[0]
    assert name not in repr(inner.asked[0].proxy)


def test_a_new_circuit_without_tor_does_nothing(inner, tor):
    async def leave_open():
        return TorFetcher(inner, tor)

    left = asyncio.run(leave_open())
    new_circuit(URL)
    new_circuit()
    assert left and tor.renewed == 0
