"""The same scraper on every queue: every page once, whatever dies."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

from tests.integration.engine.conftest import Bench
from tests.integration.engine.origin import Answer, Origin

PAGES = 600
CRAWL = """
    crawl = Scraper("crawl", rate=None, robots=False, max_depth=100)

    @crawl.step
    async def listing(page: Page):
        for link in page.links("a.page"):
            yield page.follow(link, step=leaf)
        yield page.follow(page.attr("a.next", "href"))

    @crawl.step
    async def leaf(page: Page):
        yield {"path": page.url.rpartition("/")[2], "title": page.text("title")}
"""


def shop(path):
    """Serve listings of 20 pages each, and the pages."""
    if not path.startswith("/list"):
        return Answer(f"<title>{path}</title>", after=0.01)
    number = int(path.removeprefix("/list"))
    links = "".join(f"<a class=page href='/{20 * number + entry}'>x</a>" for entry in range(20))
    after = f"<a class=next href='/list{number + 1}'>next</a>" if number + 1 < PAGES // 20 else ""
    return Answer(links + after)


async def test_a_crawl_gives_every_page_once_while_workers_are_killed(any_bench, origin):
    origin.answer = shop
    killed = []

    def kill_one(snapshot, crew):
        if snapshot.stats.items and snapshot.stats.remaining and crew.pids and len(killed) < 3:
            os.kill(crew.pids[-1], signal.SIGKILL)
            killed.append(crew.in_hand)

    any_bench.witness.on_saw = kill_one
    summary = await any_bench.run(CRAWL, [f"{origin.url}/list0"], workers=2)
    paths = Counter(item["path"] for item in await any_bench.items(summary.run.id))
    assert killed
    assert paths == Counter({str(number): 1 for number in range(PAGES)})
    assert summary.snapshot.stats.dead == 0
    assert sum(origin.visits.values()) - PAGES - PAGES // 20 <= sum(killed)


SITES = """
    web = Scraper("web", rate=None, robots=False, max_depth=100, scope="any")

    @web.step
    async def visit(page: Page):
        for link in page.links("a"):
            yield page.follow(link)
        yield {"url": page.url}
"""


async def test_sites_that_link_to_each_other_by_http_are_crawled_to_the_end_on_a_cluster(
    tmp_path, redis_cluster_url
):
    async with AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(Origin(address=f"127.0.0.{n}")) for n in range(1, 13)]

        def answer(place, path):
            number = int(path.removeprefix("/"))
            links = [f"{sites[(place + k) % 12].url}/{(2 * number + k) % 20}" for k in range(1, 7)]
            return Answer("".join(f"<a href='{link}'>x</a>" for link in links))

        for place, site in enumerate(sites):
            site.answer = partial(answer, place)
        bench = Bench(tmp_path, redis_cluster_url)
        async with asyncio.timeout(60):
            summary = await bench.run(SITES, [f"{site.url}/0" for site in sites], workers=2)
        stats = summary.snapshot.stats
        visits = sum((site.visits for site in sites), Counter())
        assert stats.completed == stats.tasks == stats.items == visits.total() == 12 * 20
        assert stats.dead == 0


async def test_a_run_at_most_once_never_asks_for_a_page_twice(any_bench, origin):
    origin.answer = lambda path: Answer(status=500 if path == "/3" else 200)
    summary = await any_bench.run(
        """
        once = Scraper("once", rate=None, robots=False, delivery="at_most_once")

        @once.step
        async def page(page: Page):
            yield {"url": page.url}
        """,
        [f"{origin.url}/{number}" for number in range(10)],
    )
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (9, 1)
    assert set(origin.visits.values()) == {1}
