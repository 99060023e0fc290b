"""What is kept in the queue itself: the cache on every queue, and the pages of earlier runs."""

import time
from datetime import timedelta

import shoal
from tests.integration.engine.origin import Answer

MINUTE = timedelta(minutes=1)
SHOP = """
    shop = Scraper("shop", rate=None, robots=False, retries=0, recrawl={recrawl}, allow_private="127.0.0.0/8")

    @shop.step
    async def listing(page: Page):
        for link in page.links("a"):
            yield page.follow(link, step=product, found_on=page.url)

    @shop.step
    async def product(page: Page):
        yield {{"title": page.text("title"), "found": bool(page.payload)}}
"""


class Shop:
    """A shop whose pages a test changes between two visits."""

    def __init__(self, origin, pages):
        self.pages = pages
        origin.answer = self.answer

    def answer(self, path):
        name = path.strip("/")
        if not name:
            return Answer("".join(f"<a href='/{page}'>x</a>" for page in self.pages))
        if name not in self.pages:
            return Answer(status=404)
        return Answer(f"<title>{self.pages[name]}</title>")


async def again(bench, run_id=None, urls=(), **more):
    """Run the scraper from Python, once more if a run is named; return the handle."""
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.start(str(bench.folder / "scraper.py"), urls=urls, again=run_id, workers=1, **more)
        await run.wait(MINUTE)
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.run(run.id)
        found = {name: count for name, count in (await run.compared()).as_json().items() if count}
        return run.id, found, await bench.items(run.id)


async def test_a_page_in_the_cache_serves_every_run_of_the_queue(any_bench, origin):
    Shop(origin, {f"p{number}": number for number in range(12)})
    scraper = SHOP.format(recrawl=False)
    first = await any_bench.run(scraper, [f"{origin.url}/"], changes=["cache=5m"])
    second = await any_bench.run(scraper, [f"{origin.url}/"], changes=["cache=5m"], workers=2)
    assert set(origin.visits.values()) == {1}
    assert (first.ending.tally.from_cache, second.ending.tally.from_cache) == (0, 13)
    items = [sorted(item["title"] for item in await any_bench.items(run.run.id)) for run in (first, second)]
    assert items[0] == items[1] and len(items[0]) == 12
    without = await any_bench.run(scraper, [f"{origin.url}/"])
    assert without.ending.tally.from_cache == 0 and set(origin.visits.values()) == {2}


async def test_a_run_that_remembers_no_page_is_compared_by_its_items(bench, origin):
    site = Shop(origin, {f"p{number}": f"Title {number}" for number in range(10)})
    bench.write(SHOP.format(recrawl=False))
    first, found, _ = await again(bench, urls=[f"{origin.url}/"])
    assert found == {}
    bench.write(SHOP.format(recrawl=False).replace("bool(page.payload)", "True"))
    site.pages["p3"] = "Title three"
    del site.pages["p7"]
    _, found, items = await again(bench, first)
    assert found == {"changed": 1, "unchanged": 8, "gone": 1}
    assert len(items) == 9


async def test_pages_that_are_not_due_cost_no_request_and_no_turn_of_their_host(bench, origin):
    site = Shop(origin, {f"p{number}": f"Title {number}" for number in range(20)})
    bench.write(SHOP.format(recrawl=True))
    seeds = [f"{origin.url}/"]
    _, _, items = await again(bench, urls=seeds, settings={"revisit": "1d..30d"})
    origin.visits.clear()
    site.pages["p3"] = "Title three"
    # 21 turns would take 5 s, and 20 more for those that are given up.
    began = time.monotonic()
    skipped, found, same = await again(
        bench, urls=seeds, settings={"revisit": "1d..30d", "rate": "4/s", "recrawl": True}
    )
    assert (found, sum(origin.visits.values())) == ({"not_due": 21}, 0)
    assert time.monotonic() - began < 4.5
    assert sorted(map(str, same)) == sorted(map(str, items))
    due = {"revisit": "1ms..2ms", "revisit_pages": 8}
    _, found, _ = await again(bench, urls=seeds, settings=due)
    # With intervals this short, a millisecond more or less moves a page across the budget.
    fetched = sum(origin.visits.values())
    assert 0 < fetched == 21 - found["over_budget"] < 21
    _, found, _ = await again(bench, urls=seeds, settings={"revisit": "1ms..2ms"})
    assert "over_budget" not in found and sum(origin.visits.values()) == fetched + 21
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        plan = await (await app.run(skipped)).recrawl_plan(limit=3)
        assert (plan.known, plan.fetch, len(plan.pages)) == (21, 0, 0)
