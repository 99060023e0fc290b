"""When robots.txt is fetched, and what becomes of the response."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    FetchTimeout,
    OutOfScope,
    ProxyFailed,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
)
from shoal.core.http import Response
from shoal.fetch.robots import robots as module
from shoal.fetch.robots.robots import (
    CONNECT_FAILURE_LIFETIME,
    FAILURE_LIFETIME,
    LIFETIME,
    THREAD_THRESHOLD,
    Robots,
)

PAGE = "https://a.test/page"


class Site:
    """A fetcher that responds as the test sets it, and records its requests."""

    def __init__(self, body="", status=200, hops=0, error=None):
        self.body, self.status, self.hops, self.error = body, status, hops, error
        self.asked = []

    async def fetch(self, request):
        self.asked.append(request.url)
        await asyncio.sleep(0)
        for hop in range(self.hops):
            await request.on_hop(f"https://a.test/{hop}")
        if self.error:
            raise self.error
        return Response(url=request.url, status=self.status, body=self.body.encode())

    async def close(self):
        pass


class Clock:
    now = 0.0

    def __call__(self):
        return self.now

    def forward(self, span):
        self.now += span.total_seconds()


@pytest.fixture
def clock():
    return Clock()


NO = "User-agent: *\nDisallow: /"


async def test_a_page_that_is_allowed_passes_with_its_rules(clock):
    robots = Robots(Site("User-agent: *\nDisallow: /secret\nCrawl-delay: 2"), "shoal/1")
    assert (await robots.check(PAGE)).crawl_delay == timedelta(seconds=2)
    with pytest.raises(RobotsDenied, match=r"robots\.txt does not allow https://a\.test/secret"):
        await robots.check("https://a.test/secret")


@pytest.mark.parametrize("status", [200, 204, 299])
async def test_a_file_that_comes_counts(status):
    with pytest.raises(RobotsDenied):
        await Robots(Site(NO, status), "shoal").check(PAGE)


@pytest.mark.parametrize("status", [300, 304, 307, 400, 401, 403, 404, 410, 418, 429, 451, 499])
async def test_a_site_without_the_file_allows_everything(status):
    assert (await Robots(Site(NO, status), "shoal").check(PAGE)).allows(PAGE)


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 520, 599, 999])
async def test_a_site_that_cannot_say_allows_nothing_for_now(status):
    with pytest.raises(RobotsUnavailable, match=f"https://a.test is not available: .*status {status}"):
        await Robots(Site("", status), "shoal").check(PAGE)


@pytest.mark.parametrize(
    "error",
    [FetchTimeout(), ProxyFailed("p", "gone"), BrokenAnswer(), TooLarge()],
    ids=lambda error: type(error).__name__,
)
async def test_a_site_that_cannot_be_reached_allows_nothing_for_now(error):
    with pytest.raises(RobotsUnavailable, match=type(error).__name__):
        await Robots(Site(error=error), "shoal").check(PAGE)


async def test_a_host_without_an_address_fails_as_such_and_not_for_its_robots():
    robots = Robots(Site(error=DnsFailed("'a.test' could not be resolved")), "shoal")
    for _ in range(2):
        with pytest.raises(DnsFailed, match=r"^'a\.test' could not be resolved$"):
            await robots.check(PAGE)


@pytest.mark.parametrize("error", [ConnectFailed("refused"), TlsFailed("expired")], ids=repr)
async def test_a_host_without_a_connection_fails_as_such_and_is_tried_again_soon(error):
    now = 0.0
    site = Site(error=error)
    robots = Robots(site, "shoal", clock=lambda: now)
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            await robots.check(PAGE)
    assert len(site.asked) == 1
    now, site.error = CONNECT_FAILURE_LIFETIME.total_seconds(), None
    await robots.check(PAGE)
    assert len(site.asked) == 2


async def test_a_site_that_may_not_be_asked_at_all_is_out_of_scope():
    with pytest.raises(OutOfScope, match="--allow-private"):
        await Robots(Site(error=OutOfScope("… --allow-private a.test")), "shoal").check(PAGE)


async def test_redirects_that_lead_astray_make_the_file_count_as_missing():
    assert await Robots(Site(hops=1, error=OutOfScope("a private address")), "shoal").check(PAGE)


async def test_the_file_is_asked_for_once_a_day(clock):
    site = Site("")
    robots = Robots(site, "shoal", clock=clock)
    for _ in range(3):
        await robots.check(PAGE)
    clock.forward(LIFETIME * 0.99)
    await robots.check("https://a.test/other?page")
    assert site.asked == ["https://a.test/robots.txt"]
    clock.forward(LIFETIME * 0.01)
    site.body = NO
    with pytest.raises(RobotsDenied):
        await robots.check(PAGE)


async def test_a_failure_is_kept_for_a_minute(clock):
    site = Site(status=503)
    robots = Robots(site, "shoal", clock=clock)
    for _ in range(5):
        with pytest.raises(RobotsUnavailable):
            await robots.check(PAGE)
    assert len(site.asked) == 1
    clock.forward(FAILURE_LIFETIME)
    site.status = 200
    assert await robots.check(PAGE)


async def test_each_origin_is_asked_for_its_own():
    site = Site("")
    robots = Robots(site, "shoal")
    for url in ("http://a.test/", "https://a.test/", "https://a.test:8443/x", "https://www.a.test/"):
        await robots.check(url)
    assert site.asked == [
        "http://a.test/robots.txt",
        "https://a.test/robots.txt",
        "https://a.test:8443/robots.txt",
        "https://www.a.test/robots.txt",
    ]


async def test_the_delay_is_known_once_the_file_is():
    robots = Robots(Site("User-agent: shoal\nCrawl-delay: 7"), "Shoal/1.0")
    assert robots.crawl_delay(PAGE) is None
    await robots.check(PAGE)
    assert robots.crawl_delay("https://a.test/other") == timedelta(seconds=7)


async def test_a_long_file_is_read_as_well():
    body = "User-agent: *\n" + "Disallow: /x\n" * (THREAD_THRESHOLD // 10) + "Disallow: /secret\n"
    with pytest.raises(RobotsDenied):
        await Robots(Site(body), "shoal").check("https://a.test/secret")


async def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXT", 10 * module.FIXED_COST)
    site = Site("")
    robots = Robots(site, "shoal")
    for number in range(50):
        await robots.check(f"https://{number}.test/")
    assert len(robots._cached) == 10
    await robots.check("https://49.test/")
    assert len(site.asked) == 50


async def test_what_is_no_longer_kept_parsed_is_parsed_again(monkeypatch):
    monkeypatch.setattr(module, "MAX_PARSED", 1)
    site = Site("User-agent: *\nDisallow: /secret")
    robots = Robots(site, "shoal")
    await robots.check("https://a.test/")
    site.body = ""
    await robots.check("https://b.test/")
    assert len(robots._parsed) == 1
    with pytest.raises(RobotsDenied):
        await robots.check("https://a.test/secret")
    assert len(site.asked) == 2


async def test_what_is_known_is_recalled_without_asking_and_nothing_else(clock):
    site = Site(NO)
    robots = Robots(site, "shoal", clock=clock)
    assert not await robots.recall(PAGE) and site.asked == []
    await robots.rules(PAGE)
    assert await robots.recall(PAGE) and len(site.asked) == 1
    clock.forward(LIFETIME)
    assert not await robots.recall(PAGE) and len(site.asked) == 1
