"""A crawl with the default settings ends, with every real page and few others."""

from collections import Counter, deque
from random import Random

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.links import traps
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from tests.unit.scrape.trapped_site import HOME, serve

MAX_PAGES = 8_000
LIMIT = 300  # of each rule, in place of thousands: a site of a thousand pages is large beside it


def shop_with_two_steps():
    shop = Scraper("shop")

    @shop.step
    def listing(page):
        for link in page.links():
            yield page.follow(link, step=product if "/product/" in link else listing)

    @shop.step
    def product(page):
        yield {"title": page.text("h1")}
        for link in page.links():
            yield page.follow(link, step=product if "/product/" in link else listing)

    return shop


def crawl(scraper):
    """Fetch in any order until nothing is left; return the kinds of pages, and skipped links by reason."""
    seed = Task(url=HOME, step=scraper.first.name)
    waiting, known, fetched, dropped = deque([seed]), {(seed.step, HOME)}, {}, Counter()
    chance = Random(1)
    while waiting and len(fetched) < MAX_PAGES:
        waiting.rotate(chance.randrange(len(waiting)))
        task = waiting.popleft()
        if trap := scraper.first.link_filter.find_trap(task):
            dropped[trap] += 1
            continue
        kind, html = serve(task.url)
        fetched[task.url] = kind
        page = Page(Response(url=task.url, status=200, body=html.encode()), task)
        harvest = scraper.steps[task.step].harvest(page)
        dropped += harvest.dropped
        fresh = [one for one in harvest.follow if (one.step, one.url) not in known]
        known.update((one.step, one.url) for one in fresh)
        waiting.extend(fresh)
    return Counter(fetched.values()), dropped


def test_every_real_page_is_fetched_and_the_traps_are_left_and_reported(monkeypatch):
    monkeypatch.setattr(traps, "LIMIT", LIMIT)
    fetched, dropped = crawl(shop_with_two_steps())
    assert fetched["real"] == 1000
    assert sum(fetched.values()) < MAX_PAGES
    assert fetched["sessions"] <= 5
    rules = ("maze in shop.test/lab/", "filters on shop.test", "repeated names on shop.test")
    assert set(dropped) == {"too deep", *(f"trap: {rule}" for rule in rules)}
