"""robots.txt over a real connection, with every engine."""

import pytest

from shoal.core.errors import ConnectFailed, RobotsDenied, RobotsUnavailable
from shoal.core.model import SECOND
from shoal.fetch.robots.robots import Robots
from tests.integration.fetch.conftest import USER_AGENT
from tests.integration.fetch.hostile import Origin, endless, page, raw, redirect

RULES = b"User-agent: *\nDisallow: /secret\nCrawl-delay: 2\nSitemap: /sitemap.xml\n"


@pytest.fixture
def robots(fetcher):
    return Robots(fetcher, USER_AGENT)


async def test_a_site_is_asked_once_and_obeyed(robots, origin):
    origin.on("/robots.txt", page(RULES))
    for path in ("/a", "/b", "/c?d"):
        await robots.check(origin.url(path))
    with pytest.raises(RobotsDenied):
        await robots.check(origin.url("/secret/page"))
    assert robots.crawl_delay(origin.url("/")) == 2 * SECOND
    assert origin.paths == ["/robots.txt"]


async def test_it_may_live_on_another_host(robots, origin):
    origin.on("/robots.txt", redirect(origin.url("/elsewhere", host="other.test")))
    origin.on("/elsewhere", page(RULES))
    with pytest.raises(RobotsDenied):
        await robots.check(origin.url("/secret"))


async def test_six_redirects_are_one_too_many(robots, origin):
    origin.on("/robots.txt", redirect("/0"))
    for number in range(5):
        origin.on(f"/{number}", redirect(f"/{number + 1}"))
    origin.on("/5", page(RULES))
    assert await robots.check(origin.url("/secret"))
    assert len(origin.asked) == 6


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone", "403 Forbidden"])
async def test_a_site_without_one_allows_everything(robots, origin, status):
    origin.on("/robots.txt", page(RULES, status=status))
    assert await robots.check(origin.url("/secret"))


FAILURES = {
    "a server error": page(RULES, status="503 Unavailable"),
    "a broken answer": raw(b"garbage"),
    "half a file": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + RULES),
    "a file without end": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"# comment\n" * 7_000),
}


@pytest.mark.parametrize("reply", FAILURES.values(), ids=FAILURES)
async def test_a_site_that_cannot_say_is_left_alone(robots, origin, reply):
    origin.on("/robots.txt", reply)
    with pytest.raises(RobotsUnavailable):
        await robots.check(origin.url("/page"))


async def test_a_site_that_cannot_be_reached_is_left_alone(robots):
    async with Origin() as gone:
        url = gone.url("/page")
    with pytest.raises(ConnectFailed, match="refused"):
        await robots.check(url)
