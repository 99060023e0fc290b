"""Rules that one worker fetched are shared with all of them."""

from datetime import timedelta

import pytest

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    OutOfScope,
    QueueUnavailable,
    RobotsDenied,
    RobotsUnavailable,
)
from shoal.core.model import ZERO
from shoal.fetch.cache.store import StoredEntry
from shoal.fetch.robots.robots import FAILURE_LIFETIME, LIFETIME, Robots
from tests.unit.fetch.robots.test_robots import PAGE, Site


class Store:
    """A store in memory whose entries can age, or which fails."""

    def __init__(self):
        self.kept, self.age, self.fails, self.is_closed = {}, ZERO, False, False

    async def get(self, key):
        self._fail()
        return StoredEntry(self.kept[key], self.age) if key in self.kept else None

    async def put(self, key, value, *, ttl):
        self._fail()
        self.kept[key] = value

    async def close(self):
        self.is_closed = True

    def _fail(self):
        if self.fails:
            raise QueueUnavailable("redis", "away")


@pytest.fixture
def store():
    return Store()


async def test_the_second_worker_does_not_ask_the_host(store):
    site = Site("User-agent: *\nDisallow: /page\nCrawl-delay: 3")
    for robots in (Robots(site, "shoal/1", store=store), Robots(site, "shoal/2", store=store)):
        with pytest.raises(RobotsDenied):
            await robots.check(PAGE)
        assert robots.crawl_delay(PAGE) == timedelta(seconds=3)
    assert len(site.asked) == 1


async def test_rules_for_another_agent_are_fetched_again(store):
    site = Site("User-agent: shoal\nDisallow: /")
    with pytest.raises(RobotsDenied):
        await Robots(site, "shoal/1", store=store).check(PAGE)
    await Robots(site, "other/1", store=store).check(PAGE)
    assert len(site.asked) == 2


@pytest.mark.parametrize("error", [ConnectFailed("refused"), DnsFailed("no address")])
async def test_that_this_machine_cannot_connect_is_not_shared(store, error):
    site = Site(error=error)
    with pytest.raises(type(error)):
        await Robots(site, "shoal/1", store=store).check(PAGE)
    site.error = None
    await Robots(site, "shoal/1", store=store).check(PAGE)
    assert len(site.asked) == 2


async def test_a_failure_is_shared_for_a_minute_and_rules_for_a_day(store):
    site = Site(error=BrokenAnswer("cut off"))
    with pytest.raises(RobotsUnavailable):
        await Robots(site, "shoal/1", store=store).check(PAGE)
    site.error = None
    store.age = FAILURE_LIFETIME - timedelta(seconds=1)
    with pytest.raises(RobotsUnavailable, match="cut off"):
        await Robots(site, "shoal/1", store=store).check(PAGE)
    store.age = FAILURE_LIFETIME
    await Robots(site, "shoal/1", store=store).check(PAGE)
    assert len(site.asked) == 2
    store.age = LIFETIME
    await Robots(site, "shoal/1", store=store).check(PAGE)
    assert len(site.asked) == 3


async def test_an_origin_that_one_scraper_may_not_ask_may_be_asked_by_another(store):
    with pytest.raises(OutOfScope):
        await Robots(Site(error=OutOfScope("private")), "shoal/1", store=store).check(PAGE)
    await Robots(Site(), "shoal/1", store=store).check(PAGE)


@pytest.mark.parametrize("poison", [b"", b"\xc1", b"\x93\xa1x\xa1y\xc0"])
async def test_what_cannot_be_read_or_is_of_another_origin_is_asked_for(store, poison):
    site = Site("User-agent: *\nDisallow: /page")
    store.kept[f"shoal {PAGE.removesuffix('/page')}"] = poison
    with pytest.raises(RobotsDenied):
        await Robots(site, "shoal/1", store=store).check(PAGE)
    assert len(site.asked) == 1


async def test_a_store_that_is_away_costs_a_fetch_and_no_more(store):
    store.fails = True
    site = Site("User-agent: *\nDisallow: /page")
    with pytest.raises(RobotsDenied):
        await Robots(site, "shoal/1", store=store).check(PAGE)


async def test_pending_writes_are_finished_at_the_end(store):
    await Robots(Site(), "shoal/1", store=store).close()
    assert store.is_closed
