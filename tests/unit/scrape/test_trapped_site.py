"""A crawl with the default settings ends, with every real page and few others."""

from collections import Counter, deque
from random import Random

import pytest

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.links import budgets, mazes
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from tests.cases import long
from tests.unit.scrape.trapped_site import HOME, serve

LIMIT = 6_000
SMALL = {
    "ENDLESS": 40, "RECURRING": 100, "CALENDAR": 300, "VARIANTS": 100, "PAIRS": 500, "FACETS": 300,
    "MAZE": 100, "PAGING": 200, "PER_PAGE": 0,
}  # fmt: skip


@pytest.fixture
def small_budgets(monkeypatch):
    """Make the budgets small, so that a site of a thousand pages is large beside them."""
    for name, limit in SMALL.items():
        monkeypatch.setattr(budgets, name, limit)
    monkeypatch.setattr(mazes, "WINDOW", 20)


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


def shop_with_one_step():
    shop = Scraper("shop")

    @shop.step
    def everything(page):
        if "/product/" in page.url:
            yield {"title": page.text("h1"), "url": page.url}
        for link in page.links():
            yield page.follow(link)

    return shop


def shop_that_keeps_every_page():
    shop = Scraper("shop")

    @shop.step
    def everything(page):
        yield {"title": page.text("h1"), "url": page.url}
        for link in page.links():
            yield page.follow(link)

    return shop


def next_of(waiting, order, chance):
    if order == "oldest first":
        return waiting.popleft()
    if order == "any":
        waiting.rotate(chance.randrange(len(waiting)))
    return waiting.pop()


def crawl(scraper, order):
    """Fetch until nothing is left; return the kinds of pages fetched, and the skipped links by reason."""
    seed = Task(url=HOME, step=scraper.first.name)
    waiting, known, fetched, dropped = deque([seed]), {(seed.step, HOME)}, {}, Counter()
    chance = Random(1)
    while waiting and len(fetched) < LIMIT:
        task = next_of(waiting, order, chance)
        if maze := scraper.first.link_filter.find_maze(task):
            dropped[maze] += 1
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


@pytest.mark.parametrize(
    ("make", "order"),
    [
        (shop_with_two_steps, "oldest first"),
        *long(
            (shop_with_two_steps, "newest first"),
            (shop_with_one_step, "any"),
            (shop_that_keeps_every_page, "oldest first"),
        ),
    ],
)
def test_every_real_page_is_fetched_and_the_traps_are_left_and_reported(make, order, small_budgets):
    fetched, dropped = crawl(make(), order)
    assert fetched["real"] == 1000
    assert sum(fetched.values()) - 1000 - fetched["soft 404"] <= 3_000
    named = " ".join(dropped)
    for trap in (
        "/calendar",
        "(repeating paths)",
        "(filters)",
        "(recurring paths)",
        "/lab/",
        "(sorted and printed views)",
    ):
        assert trap in named
    assert fetched["sessions"] <= 5
