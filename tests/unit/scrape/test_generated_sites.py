"""Sites without end are left after thousands of pages, with the default settings and in any order."""

from collections import Counter, deque
from random import Random

import pytest

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from tests.unit.scrape.generated_sites import (
    GENERATED,
    HOME,
    faceted_shop,
    maze_of_new_text,
    render,
    sessions_in_paths,
)

MAX_PAGES = 20_000
# Each site as a queue goes through it. Of the full tier: two whose links the whole sites of links/ have too,
# and two that end by different rules in other orders. `make complete ARGS=--endless` crawls all over HTTP.
IN_LINKS = (sessions_in_paths, maze_of_new_text)
CRAWLS = [
    *(
        pytest.param(site, "oldest first", marks=[pytest.mark.full] if site in IN_LINKS else [])
        for site in GENERATED
    ),
    *(
        pytest.param(site, order, marks=pytest.mark.full)
        for site in (faceted_shop, maze_of_new_text)
        for order in ("newest first", "any")
    ),
]


def crawl(site, order):
    """Follow every link, and return the number of pages and the skipped links by reason."""
    scraper, chance = Scraper("generated"), Random(1)

    @scraper.step
    def everything(page):
        yield {"url": page.url, "title": page.text("h1")}
        for link in page.links():
            yield page.follow(link)

    seed = Task(url=f"{HOME}/", step="everything")
    waiting, known, dropped, pages = deque([seed]), {seed.url}, Counter(), 0
    while waiting and pages <= MAX_PAGES:
        waiting.rotate(chance.randrange(len(waiting)) if order == "any" else 0)
        task = waiting.pop() if order == "newest first" else waiting.popleft()
        if maze := scraper.first.link_filter.find_maze(task):
            dropped[maze] += 1
            continue
        pages += 1
        response = Response(url=task.url, status=200, body=render(site, task.url))
        harvest = scraper.first.harvest(Page(response, task))
        dropped += harvest.dropped
        fresh = [one for one in harvest.follow if one.url not in known]
        known.update(one.url for one in fresh)
        waiting.extend(fresh)
    return pages, dropped


@pytest.mark.long  # in the short tier: links/test_whole_sites.py, without pages to parse
@pytest.mark.parametrize(("site", "order"), CRAWLS)
@pytest.mark.timeout(300)
def test_a_site_without_end_is_left_after_thousands_of_pages(site, order):
    pages, dropped = crawl(site, order)
    assert 1_000 <= pages <= MAX_PAGES
    assert dropped, "and what was left out is said"
