"""The same scraper on every queue: every page once, whatever dies."""

import os
import signal
from collections import Counter

from tests.integration.engine.origin import Answer

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
