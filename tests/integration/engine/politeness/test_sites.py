"""Settings of sites: their hosts are slower from the first request on, and get their own headers."""

from itertools import pairwise

import pytest

from shoal.fleet.status.proxies import proxies as known_proxies
from shoal.queue.open import open_queue
from tests.conftest import or_skip
from tests.integration.engine.origin import Answer, Origin
from tests.servers.proxies import TinyProxy

SCRAPER = """
from shoal import Scraper

shop = Scraper("shop", robots=False, rate="20/s", sites={sites!r})

@shop.step
async def page(page):
    yield {{"url": page.url}}
"""


@pytest.fixture
async def slow():
    async with Origin() as site:
        site.heads = []
        site.on_head = lambda path, head: site.heads.append(head)
        yield site


async def test_a_site_is_slower_than_the_others_from_the_first_request_on(bench, origin, slow):
    origin.answer = lambda path: Answer()
    pages = [f"{slow.url}/{n}" for n in range(5)] + [f"{origin.url}/{n}" for n in range(20)]
    code = SCRAPER.format(sites={f"127.0.0.1:{slow.port}": {"rate": "4/s", "headers": {"x-site": "slow"}}})
    summary = await bench.run(code, pages, workers=2)
    assert summary.snapshot.stats.completed == 25 and summary.snapshot.stats.dead == 0
    moments = sorted(moment for moment, _ in slow.moments)
    assert len(moments) == 5
    assert min(later - sooner for sooner, later in pairwise(moments)) >= 0.2  # the others have 0.05
    assert all("x-site: slow" in head.lower() for head in slow.heads)
    others = sorted(moment for moment, _ in origin.moments)
    assert others[-1] - others[0] < 3  # at the rate of the site it would take five seconds


PROXIED = """
shop = Scraper("shop", robots=False, rate=None, proxies={usual!r}, sites={sites!r})

@shop.step
async def page(page):
    yield {{"url": page.url}}
"""


async def test_a_site_is_fetched_through_proxies_of_its_own_or_directly(bench, origin, slow):
    origin.answer = lambda path: Answer()
    programs = or_skip(lambda: [TinyProxy(), TinyProxy()])
    async with Origin() as direct:
        with programs[0] as usual, programs[1] as own:
            pages = [f"{site.url}/{n}" for site in (origin, slow, direct) for n in range(3)]
            sites = {
                f"127.0.0.1:{slow.port}": {"proxies": [own.url]},
                f"127.0.0.1:{direct.port}": {"proxies": False},
            }
            summary = await bench.run(PROXIED.format(usual=[usual.url], sites=sites), pages, workers=2)
            visits = [len(usual.visits()), len(own.visits())]
    assert summary.snapshot.stats.completed == 9
    assert visits == [3, 3]
    assert len(direct.moments) == 3
    async with open_queue(bench.queue_url) as queue:
        found = {one.name.partition("#")[0]: one.pages for one in await known_proxies(queue, summary.run.id)}
    assert found == {usual.shown: 3, own.shown: 3}
