"""What a caller shows one origin is shown to no other, wherever redirects lead."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import product

import pytest

from shoal.core.errors import FetchError, InvalidSetting
from shoal.core.http import Identity, Proxy, Request
from shoal.core.proxies import read_proxy_list
from shoal.fetch.egress import Egress
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.http.engines import open_engine
from shoal.fetch.tokens.fetcher import TokenFetcher
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.token import TokenPlacement, TokenSource
from shoal.queue.open import open_queue
from tests.conftest import or_skip
from tests.integration.fetch.hostile import Origin, page, redirect
from tests.servers.proxies import MicroSocks, TinyProxy

STATUSES = ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
HEADERS = {
    "Authorization": "Bearer canary-authorization",
    "Cookie": "sid=canary-cookie",
    "X-Api-Key": "canary-key",
    "X-Auth-Token": "canary-auth-token",
    "Referer": "https://example.com/?canary-referer",
}
LED_AWAY = "/led-away"


@dataclass
class Roads:
    """Origins that differ from http://site.test in one thing each, and who listens there."""

    plain: Origin
    other: Origin
    secure: Origin

    def start(self, crossing):
        """Return where a walk begins."""
        match crossing:
            case "to http":
                return self.secure, self.secure.url("/", "site.test")
            case "to the parent":
                return self.plain, self.plain.url("/", "sub.site.test")
            case _:
                return self.plain, self.plain.url("/", "site.test")

    def end(self, crossing):
        """Return where it leads."""
        listener, host = {
            "origin": (self.plain, "other.test"),
            "port": (self.other, "site.test"),
            "to https": (self.secure, "site.test"),
            "to http": (self.plain, "site.test"),
            "to a subdomain": (self.plain, "sub.site.test"),
            "to the parent": (self.plain, "site.test"),
            "nowhere else": (self.plain, "site.test"),
        }[crossing]
        return listener, listener.url(LED_AWAY, host)


CROSSINGS = ["origin", "port", "to https", "to http", "to a subdomain", "to the parent"]


@pytest.fixture
async def roads(origin, tls_origin):
    async with Origin() as other:
        for listener in (origin, other, tls_origin):
            listener.on(LED_AWAY, page())
        yield Roads(origin, other, tls_origin)


@pytest.fixture
def fetcher(make_fetcher, certificate):
    return make_fetcher(authorities=certificate.file)


def shown(listener):
    """Return all that was shown where the redirect led."""
    asked = [one for one in listener.asked if one.path.startswith(LED_AWAY)]
    return json.dumps([(one.line, one.headers) for one in asked]), len(asked)


async def walk(fetcher, url, **more):
    more.setdefault("timeout", timedelta(seconds=10))
    with suppress(FetchError, InvalidSetting):  # one engine knows no proxies
        await fetcher.fetch(Request(url=url, **more))


async def led(fetcher, roads, crossing, *answer, status="302 Found", **more):
    """Walk from one origin to the other; return what was shown there, and how often it was asked."""
    listener, url = roads.start(crossing)
    end, away = roads.end(crossing)
    for one in (listener, end):
        one.asked.clear()
    listener.on("/", redirect(away, *answer, status=status))
    await walk(fetcher, url, **more)
    return shown(end)


@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_headers_and_cookies_stay_with_the_origin_they_were_for(fetcher, roads, crossing):
    cookies = ("Set-Cookie: sid=canary-1; Path=/", "Set-Cookie: suffix=canary-3; Path=/; Domain=test")
    for status in STATUSES:
        said, times = await led(fetcher, roads, crossing, *cookies, status=status, headers=HEADERS)
        assert times == 1
        assert "canary" not in said


WITHIN_THE_SITE = ["to a subdomain", "to the parent"]
WIDE = "Set-Cookie: wide=canary-2; Path=/; Domain=site.test"


@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_a_cookie_with_a_domain_reaches_the_hosts_of_its_site_and_no_others(fetcher, roads, crossing):
    """The cookies of a session as those of the fetcher."""
    for identity in (None, Identity(key="one", cookies=CookieJar())):
        cookies = ("Set-Cookie: sid=canary; Path=/", WIDE)
        said, times = await led(fetcher, roads, crossing, *cookies, identity=identity)
        assert times == 1
        assert "sid=canary" not in said
        assert ("wide=canary-2" in said) == (crossing in WITHIN_THE_SITE)


async def test_within_the_origin_they_are_shown(fetcher, roads):
    """The control: a canary that is shown is seen."""
    said, times = await led(fetcher, roads, "nowhere else", "Set-Cookie: sid=canary-set", headers=HEADERS)
    assert times == 1
    for word in (
        "canary-authorization",
        "canary-cookie",
        "canary-key",
        "canary-auth-token",
        "canary-referer",
        "canary-set",
    ):
        assert word in said


async def test_what_comes_back_to_the_first_origin_by_way_of_another_is_shown_nothing(fetcher, roads):
    """Else a host could have a form of its own answered in the caller's name."""
    roads.plain.on("/", redirect(roads.other.url("/back", "other.test")))
    roads.other.on("/back", redirect(roads.plain.url(LED_AWAY, "site.test")))
    await walk(fetcher, roads.plain.url("/", "site.test"), headers=HEADERS)
    said, times = shown(roads.plain)
    assert times == 1
    assert "canary" not in said


async def test_what_opens_a_proxy_is_shown_to_no_target(make_fetcher, roads):
    """The proxy is one that passes everything on; where the engine has no proxies, nothing goes out."""
    roads.other.on("/", page())
    upstream = Proxy(name="p", url=f"http://canary-user:canary-password@127.0.0.1:{roads.other.port}")
    await walk(make_fetcher(), roads.plain.url("/", "site.test"), proxy=upstream)
    for one in roads.other.asked:
        without = {name: value for name, value in one.headers.items() if name != "proxy-authorization"}
        assert "canary" not in json.dumps([one.line, without])
    assert roads.plain.asked == []


@pytest.mark.parametrize("kind", [TinyProxy, MicroSocks])
async def test_by_a_proxy_they_stay_as_well_and_so_does_what_opens_it(kind, roads, certificate):
    """A real one, which looks up names by itself: so that hosts differ by their ports and schemes alone."""
    plain, other, secure = (
        one.url(LED_AWAY, "127.0.0.1") for one in (roads.plain, roads.other, roads.secure)
    )
    ways = [(roads.plain, other), (roads.plain, secure), (roads.secure, plain)]
    fetcher = open_engine(egress=Egress(["127.0.0.0/8"]), user_agent="test", authorities=certificate.file)
    with or_skip(lambda: kind(("canary-user", "canary-password"))) as proxy:
        (upstream,) = read_proxy_list([proxy.url], what="entry")
        for (start, away), status in product(ways, STATUSES):
            start.on("/", redirect(away, status=status))
            response = await fetcher.fetch(Request(url=start.url("/"), headers=HEADERS, proxy=upstream))
            assert response.url == away
    await fetcher.close()
    asked = [one for listener in (roads.plain, roads.other, roads.secure) for one in listener.asked]
    firsts, led = ([one for one in asked if (one.path == LED_AWAY) is is_led] for is_led in (False, True))
    assert len(firsts) == len(led) == len(ways) * len(STATUSES)
    assert "canary" not in json.dumps([(one.line, one.headers) for one in led])
    for one in firsts:
        assert all(one.headers[name.lower()] == value for name, value in HEADERS.items())
        assert not any(name.startswith("proxy-") for name in one.headers)


async def test_a_page_cannot_send_the_fetcher_on(fetcher, roads):
    away = roads.other.url(LED_AWAY, "other.test")
    for reply in (
        page(f"<meta http-equiv=refresh content='0; url={away}'>".encode()),
        page(f"<script>location = '{away}'</script>".encode(), "Content-Type: text/html"),
        page(b"", f"Refresh: 0; url={away}"),
    ):
        roads.plain.on("/", reply)
        await walk(fetcher, roads.plain.url("/", "site.test"), headers=HEADERS)
    assert (len(roads.plain.asked), roads.other.asked) == (3, [])


@pytest.fixture
async def with_token(fetcher, roads, tmp_path):
    """Returns fetchers that send a token to the first origin of a crossing."""
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        opened = []

        async def make(crossing, **where):
            url = roads.start(crossing)[1]
            pool = await TokenPool.open(queue, TokenSource(given=("canary-token",)), run_id="r")
            placement = TokenPlacement(origins=frozenset({url.removesuffix("/")}), **where)
            opened.append(pool)
            return TokenFetcher(fetcher, pool, placement, queue=queue)

        yield make
        for pool in opened:
            await pool.close()


@pytest.mark.parametrize("engine", ["wreq"], indirect=True)
@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_a_token_stays_with_the_origin_it_is_for(with_token, roads, crossing):
    for where in ({}, {"header": "X-Api-Key", "form": "{}"}, {"query": "key"}):
        fetcher = await with_token(crossing, **where)
        for status in STATUSES:
            said, _ = await led(fetcher, roads, crossing, status=status)
            assert "canary" not in said
        listener, url = roads.start(crossing)
        # The control: the first origin is shown it.
        first = [one for one in listener.asked if not one.path.startswith(LED_AWAY)]
        assert "canary-token" in json.dumps([(one.line, one.headers) for one in first])
    # Nor by a host that repeats the query.
    end, away = roads.end(crossing)
    for spelled in ("canary-token", "canary%2Dtoken", "%63anary-token"):
        listener.on("/", redirect(f"{away}?key={spelled}"))
        await walk(fetcher, url)
        said, _ = shown(end)
        assert "anary" not in said
