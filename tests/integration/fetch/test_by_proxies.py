"""Fetching through real proxies, and through broken ones: which side is at fault, and who sees what."""

import logging
from datetime import timedelta

import pytest

from shoal.core.errors import (
    ConnectFailed,
    FetchTimeout,
    NotNow,
    OutOfScope,
    ProxyFailed,
    ProxyRefused,
)
from shoal.core.http import Request
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.proxies.fetcher import ProxiesFetcher
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.pool import ProxyPool
from tests.conftest import or_skip
from tests.integration.fetch.false_proxy import FalseProxy
from tests.integration.fetch.hostile import page
from tests.servers.process import free_port
from tests.servers.proxies import MicroSocks, TinyProxy

LOGIN = ("visitor", "s3cret-pa55")
NO_PROXY = "no-such-proxy.invalid"
FAR, FAR_TLS = "http://far.example/", "https://far.example/"


def proxy_of(url):
    return read_proxy_list([url], what="entry", salt=b"x")[0]


async def never(name):
    """Resolve no name except that of a proxy, which has none."""
    if name == NO_PROXY:
        raise OSError("no such name")
    raise AssertionError(f"{name} was looked up here")


@pytest.fixture
async def fetcher(certificate):
    """A fetcher that resolves no name itself."""
    made = open_engine(
        egress=Egress(["127.0.0.0/8"], lookup=never), user_agent="test", authorities=certificate.file
    )
    yield made
    await made.close()


def fetch(fetcher, url, proxy, seconds=5.0):
    return fetcher.fetch(Request(url=url, proxy=proxy, timeout=timedelta(seconds=seconds)))


@pytest.mark.parametrize("kind", [TinyProxy, MicroSocks])
async def test_a_real_proxy_that_refuses_our_password_is_counted_as_one_that_refuses(fetcher, kind, origin):
    with or_skip(lambda: kind(LOGIN)) as proxy:
        wrong = proxy.url.replace(LOGIN[1], "wrong-pa55")
        pool = ProxyPool(ProxyRules(), [proxy_of(wrong)])
        with pytest.raises(NotNow):
            await fetch(ProxiesFetcher(fetcher, pool), origin.on("/", page()), None)
    (health,) = pool.records()
    assert set(health.faults) == {ProxyFault.REFUSED}
    assert origin.asked == []


@pytest.fixture(params=[None, LOGIN], ids=["open", "with a password"])
def login(request):
    return request.param


@pytest.fixture(params=[TinyProxy, MicroSocks])
def proxy(request, login):
    with or_skip(lambda: request.param(login)) as started:
        yield started


async def test_pages_come_by_real_proxies_which_look_up_names(fetcher, proxy, origin, tls_origin):
    """The fetcher's own lookup fails the test."""
    address = proxy_of(proxy.url)
    for site in (origin, tls_origin):
        for _ in range(3):
            assert (await fetch(fetcher, site.on("/", page()), address)).body == b"hello"
        assert not any("proxy" in name.lower() for asked in site.asked for name in asked.headers)
    made = open_engine(egress=Egress([f"localhost:{origin.port}"], lookup=never), user_agent="test")
    assert (await fetch(made, origin.url("/", host="localhost"), address)).body == b"hello"
    await made.close()
    connections = origin.connections
    made = open_engine(egress=Egress(lookup=never), user_agent="test")
    for host in ("127.0.0.1", "localhost", "[::1]"):
        with pytest.raises(OutOfScope):
            await fetch(made, origin.url("/", host=host), address)
    await made.close()
    assert origin.connections == connections


SOCKS_OPEN, SOCKS_LOGIN = b"\x05\x00", b"\x05\x02"


def socks_says(code):
    return b"\x05" + bytes([code]) + b"\x00\x01\x00\x00\x00\x00\x00\x00"


def says(status):
    return b"HTTP/1.1 %d Words\r\nContent-Length: 0\r\n\r\n" % status


@pytest.mark.parametrize(
    ("scheme", "url", "lines", "kind", "is_sure"),
    [
        ("http", FAR_TLS, [says(407)], ProxyRefused, True),
        ("http", FAR_TLS, [says(403)], ProxyRefused, False),
        ("http", FAR_TLS, [says(502)], ProxyRefused, False),
        ("http", FAR_TLS, [b""], ProxyFailed, False),
        ("http", FAR_TLS, [b"220 mail.example ESMTP\r\n\r\n"], ProxyFailed, True),
        ("https", FAR, [says(400)], ProxyFailed, True),
        ("socks5", FAR, [says(400)], ProxyFailed, True),
        ("socks5", FAR, [b"\x05\xff"], ProxyRefused, True),
        ("socks5", FAR, [SOCKS_LOGIN, b"\x01\x01"], ProxyRefused, True),
        ("socks5", FAR, [SOCKS_OPEN, socks_says(1)], ProxyRefused, False),
        ("socks5", FAR, [SOCKS_OPEN, socks_says(2)], ProxyRefused, False),
        ("socks5", FAR, [SOCKS_OPEN, socks_says(7)], ProxyRefused, True),
        ("socks5", FAR, [SOCKS_OPEN, socks_says(8)], ProxyRefused, True),
    ],
)
async def test_errors_of_a_proxy_are_distinguished_from_those_of_its_target(
    fetcher, scheme, url, lines, kind, is_sure
):
    async with FalseProxy(*lines) as false:
        with pytest.raises(ProxyFailed) as caught:
            await fetch(fetcher, url, proxy_of(f"{scheme}://me:s3cret@127.0.0.1:{false.port}"))
    assert (caught.type, caught.value.is_sure) == (kind, is_sure)
    assert "s3cret" not in f"{caught.value} {caught.value!r}" and caught.value.__cause__ is None


@pytest.mark.parametrize("code", [3, 4, 5, 6])
async def test_a_target_that_a_proxy_cannot_reach_is_not_the_proxys_fault(fetcher, code):
    async with FalseProxy(SOCKS_OPEN, socks_says(code)) as false:
        with pytest.raises(ConnectFailed) as caught:
            await fetch(fetcher, FAR, proxy_of(f"socks5://127.0.0.1:{false.port}"))
    assert not isinstance(caught.value, ProxyFailed)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_dead_proxy_is_known_as_one(fetcher, scheme):
    for url in (FAR, FAR_TLS):
        for address in (f"127.0.0.1:{free_port()}", "no-such-proxy.invalid:80"):
            with pytest.raises(ProxyFailed) as caught:
                await fetch(fetcher, url, proxy_of(f"{scheme}://me:s3cret@{address}"))
            assert caught.value.is_sure and "s3cret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_says_nothing_ends_at_the_deadline(fetcher, scheme):
    async with FalseProxy(b"", waits=True) as false:
        with pytest.raises(FetchTimeout):
            await fetch(fetcher, FAR_TLS, proxy_of(f"{scheme}://127.0.0.1:{false.port}"), seconds=0.2)


async def test_a_proxy_hears_its_own_credentials_and_no_others(fetcher, caplog):
    async with FalseProxy(says(200)) as one, FalseProxy(says(200)) as other:
        with caplog.at_level(logging.DEBUG):
            await fetch(fetcher, FAR, proxy_of(f"http://me:one-s3cret@127.0.0.1:{one.port}"))
            await fetch(fetcher, FAR, proxy_of(f"http://127.0.0.1:{other.port}"))
    assert b"proxy-authorization: Basic bWU6b25lLXMzY3JldA==" in one.heard
    assert b"authorization" not in other.heard.lower()
    assert "s3cret" not in caplog.text


async def test_a_name_goes_to_the_proxy_as_it_is(fetcher):
    async with FalseProxy(SOCKS_OPEN, socks_says(5)) as socks, FalseProxy(says(200)) as plain:
        with pytest.raises(ConnectFailed):
            await fetch(fetcher, FAR, proxy_of(f"socks5://127.0.0.1:{socks.port}"))
        await fetch(fetcher, FAR, proxy_of(f"http://127.0.0.1:{plain.port}"))
    assert b"\x03\x0bfar.example" in socks.heard
    assert plain.heard.startswith(b"GET http://far.example/ HTTP/1.1")


async def test_connections_are_not_shared_between_the_users_of_a_proxy(fetcher):
    """Providers select the exit by the user name."""
    async with FalseProxy(says(200), says(200), says(200)) as false:
        for user in ("exit-1", "exit-2", "exit-1"):
            await fetch(fetcher, FAR, proxy_of(f"http://{user}:x@127.0.0.1:{false.port}"))
    assert false.heard.count(b"proxy-authorization: Basic ZXhpdC0xOng=") == 2
    assert false.heard.count(b"proxy-authorization: Basic ZXhpdC0yOng=") == 1
