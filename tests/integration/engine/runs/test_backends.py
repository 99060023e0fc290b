"""The same scraper on every queue: every page once, whatever dies."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import pytest

from shoal.core.model import ZERO, RunSettings, Task
from shoal.queue.open import open_queue
from shoal.worker.failures.pages import read_failed_page
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

    def kill_one(snapshot, pool):
        if snapshot.stats.items and snapshot.stats.remaining and pool.pids and len(killed) < 3:
            os.kill(pool.pids[-1], signal.SIGKILL)
            killed.append(pool.in_hand)

    any_bench.witness.on_saw = kill_one
    summary = await any_bench.run(CRAWL, [f"{origin.url}/list0"], workers=2)
    paths = Counter(item["path"] for item in await any_bench.items(summary.run.id))
    assert killed
    assert paths == Counter({str(number): 1 for number in range(PAGES)})
    assert summary.snapshot.stats.dead == 0
    assert sum(origin.visits.values()) - PAGES - PAGES // 20 <= sum(killed)


BROKEN = """
    broken = Scraper("broken", rate=None, robots=False, retries=0)

    @broken.step
    async def main(page: Page):
        yield {"price": float(page.text("b"))}
"""


async def test_a_dead_letter_keeps_its_traceback_and_its_page(bench, origin):
    origin.answer = lambda path: Answer("<b>no price</b>")
    summary = await bench.run(BROKEN, [f"{origin.url}/1"])
    async with open_queue(bench.queue_url) as queue:
        (letter,) = [letter async for letter in queue.dead(summary.run.id)]
        page = await read_failed_page(queue, summary.run.id, letter.id)
    lines = letter.traceback.split("\n")
    assert lines[-2].strip() == 'yield {"price": float(page.text("b"))}'
    assert lines[-1].startswith("ValueError: could not convert")
    assert letter.error.startswith(lines[-1])
    assert page is not None
    assert (page.status, page.body) == (200, b"<b>no price</b>")


SITES = """
    web = Scraper("web", rate=None, robots=False, max_depth=100, scope="any")

    @web.step
    async def visit(page: Page):
        for link in page.links("a"):
            yield page.follow(link)
        yield {"url": page.url}
"""


@pytest.mark.long
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


LANES = """
    lanes = Scraper("lanes", rate=None, robots=False)

    @lanes.step
    async def sure(page: Page):
        yield {"url": page.url}

    @lanes.step(delivery="at_most_once")
    async def quick(page: Page):
        yield {"url": page.url}
"""


def lanes(origin, count):
    """Return the tasks of both lanes, by the name of their step."""
    return {
        step: [Task(url=f"{origin.url}/{step}{number}", step=step) for number in range(count)]
        for step in ("sure", "quick")
    }


async def test_one_run_has_a_reliable_lane_and_one_at_most_once_whichever_process_is_killed(
    any_bench, origin
):
    killed = []

    def kill_one(path):
        pool = any_bench.witness.pool
        if "quick" in path and pool.pids and not killed:
            killed.append(pool.pids[0])
            os.kill(pool.pids[0], signal.SIGKILL)
        return Answer(after=0.05)

    origin.answer = kill_one
    tasks = lanes(origin, 30)
    mixed = [task for pair in zip(*tasks.values(), strict=True) for task in pair]
    summary = await any_bench.run(LANES, mixed, concurrency=20)
    items = Counter(item["url"] for item in await any_bench.items(summary.run.id))
    letters = {letter.task.url: letter.error for letter in await any_bench.dead(summary.run.id)}
    assert killed and set(items.values()) == {1}
    assert items.keys() >= {task.url for task in tasks["sure"]}
    assert items.keys() | letters.keys() == {task.url for task in mixed}
    assert letters and all("WorkerDied" in error and "/quick" in url for url, error in letters.items())
    assert {count for path, count in origin.visits.items() if "quick" in path} == {1}


async def test_what_a_vanished_machine_held_is_handed_out_again_in_the_reliable_lane_only(any_bench, origin):
    origin.answer = lambda path: Answer()
    tasks = lanes(origin, 3)
    async with open_queue(any_bench.queue_url) as queue:
        run = await queue.start_run("lanes", settings=RunSettings(host_delay=ZERO, per_host=16))
        await queue.enqueue(run.id, [task for lane in tasks.values() for task in lane])
        grant = await queue.claim("elsewhere-1-ab", run_id=run.id, limit=6, lease=timedelta(seconds=1))
        assert len(grant.leases) == 6
    summary = await any_bench.run(LANES, [], run_id=run.id, resume=True)
    items = {item["url"] for item in await any_bench.items(summary.run.id)}
    letters = {letter.task.url: letter.error for letter in await any_bench.dead(summary.run.id)}
    assert items == {task.url for task in tasks["sure"]}
    assert letters.keys() == {task.url for task in tasks["quick"]}
    assert all("at_most_once" in error for error in letters.values())
    assert not any("quick" in path for path in origin.visits)


EXITS = """
    from shoal import RetryLater, SkipTask

    exits = Scraper("exits", rate=None, robots=False, retries=1)

    @exits.step
    async def main(page: Page):
        if page.url.endswith("/skip"):
            raise SkipTask("sold out")
        if page.url.endswith("/later"):
            raise RetryLater("not ready", after="10ms")
        if page.url.endswith("/bug"):
            yield {"title": tittle}
        if page.url.endswith("/wrong"):
            yield 7
        if page.url.endswith("/none"):
            yield {"title": page.css_first("h1").text()}
        yield {"title": "one"}
"""


async def test_a_step_may_skip_its_task_or_ask_for_another_attempt(bench, origin):
    origin.answer = lambda path: Answer("<b>x</b>")
    paths = ["skip", "later", "bug", "wrong", "none", "fine"]
    summary = await bench.run(EXITS, [f"{origin.url}/{path}" for path in paths])
    async with open_queue(bench.queue_url) as queue:
        letters = {str(one.task.url).rpartition("/")[2]: one async for one in queue.dead(summary.run.id)}
    assert summary.snapshot.stats.completed == 2 and summary.snapshot.stats.items == 1
    skipped = summary.snapshot.not_followed["skipped: sold out"]
    assert (skipped.count, skipped.example) == (1, f"{origin.url}/skip")
    assert {path: letter.attempts for path, letter in letters.items()} == {
        "later": 2,
        "bug": 1,
        "wrong": 1,
        "none": 2,
    }
    assert [attempt.error.partition(" (")[0] for attempt in letters["later"].history] == [
        "RetryLater: not ready"
    ] * 2
    assert letters["bug"].error.startswith("NameError: ") and "in main)" in letters["bug"].error
    assert "yielded a value of type int" in letters["wrong"].error and "in main)" in letters["wrong"].error
    assert "    yield 7" in letters["wrong"].traceback
