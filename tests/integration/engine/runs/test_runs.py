"""Whole runs: a real queue, real worker processes, a real site."""

import re
from itertools import pairwise

import pytest

from tests.integration.engine.origin import Answer, Origin

TITLES = """
    titles = Scraper("titles", rate=None, robots=False)

    @titles.step
    async def page(page: Page):
        yield {"url": page.url, "title": page.text("title")}
"""


async def test_every_page_becomes_one_item(bench, origin):
    origin.answer = lambda path: Answer(f"<title>Page {path}</title>")
    summary = await bench.run(TITLES, [f"{origin.url}/{number}" for number in range(200)])
    items = await bench.items(summary.run.id)
    assert sorted(item["title"] for item in items) == sorted(f"Page /{number}" for number in range(200))
    assert set(origin.visits.values()) == {1}
    assert summary.as_json() | {"run_id": "", "seconds": 0, "pages_per_second": 0} == {
        "run_id": "",
        "compared_with": [],
        "enqueued": 200,
        "completed": 200,
        "pages": 200,
        "dead": 0,
        "expired": 0,
        "lost": 0,
        "items": 200,
        "rejected": 0,
        "seconds": 0,
        "pages_per_second": 0,
        "remaining": 0,
        "invalid": 0,
        "known": 0,
        "state": "finished",
        "reason": None,
        "outcome": "complete",
        "outcome_reason": None,
        "findings": [],
        "not_followed": {},
        "missing": {"count": 0, "examples": []},
        "files": {"stored": 0, "bytes": 0, "unchanged": 0, "known": 0, "refused": {}},
        "hooks": {},
        "scraper_stats": {},
        "left_to_others": {},
        "refused": [],
        "failures": [],
        "lost_counts": False,
        "first_errors": {},
        "first_reject": None,
        "empty_fields": {},
    }


async def test_links_are_followed_within_scope_and_depth(bench, origin):
    def answer(path):
        number = int(path.strip("/") or 0)
        down = "".join(f"<a href='/{3 * number + child}'>down</a>" for child in (1, 2, 3))
        return Answer(f"{down}<a href='http://other.example/'>away</a>")

    origin.answer = answer
    summary = await bench.run(
        """
        chain = Scraper("chain", rate=None, robots=False, max_depth=2)

        @chain.step
        async def page(page: Page):
            for link in page.links():
                yield page.follow(link)
        """,
        [f"{origin.url}/"],
    )
    assert set(origin.visits) == {"/", *(f"/{number}" for number in range(1, 13))}
    assert summary.ending.tally.dropped == {"out of scope": 13, "too deep": 27}


async def test_items_are_validated_and_rejects_are_kept_with_the_reason(bench, origin):
    origin.answer = lambda path: Answer(f"<b>{'12.50' if path == '/good' else 'call us'}</b>")
    summary = await bench.run(
        """
        from dataclasses import dataclass

        prices = Scraper("prices", rate=None, robots=False)

        @dataclass
        class Price:
            amount: float

        @prices.step(item=Price)
        def page(page: Page):
            return {"amount": page.text("b")}
        """,
        [f"{origin.url}/good", f"{origin.url}/bad"],
    )
    assert await bench.items(summary.run.id) == [{"amount": 12.5}]
    assert summary.snapshot.stats.rejected == 1


async def test_a_page_that_fails_is_tried_again_and_buried_with_its_history(bench, origin):
    origin.answer = lambda path: Answer(status=500)
    summary = await bench.run(TITLES, [f"{origin.url}/x"], changes=["retries=1"])
    (letter,) = await bench.dead(summary.run.id)
    assert letter.attempts == 2 and len(letter.history) == 2
    assert "status 500" in letter.error
    assert origin.visits["/x"] == 2


async def test_an_error_of_a_step_names_the_line_that_raised_it(bench, origin):
    summary = await bench.run(
        """
        broken = Scraper("broken", rate=None, robots=False, retries=0)

        @broken.step
        async def page(page: Page):
            yield {"price": page.headers["price"]}
        """,
        [f"{origin.url}/x"],
    )
    (letter,) = await bench.dead(summary.run.id)
    assert re.search(r"KeyError: 'price' \(\S+\.py:\d+ in \w+\)", letter.error)


async def test_what_a_step_yielded_before_it_failed_is_not_kept(bench, origin):
    summary = await bench.run(
        """
        half = Scraper("half", rate=None, robots=False, retries=0)

        @half.step
        async def page(page: Page):
            yield {"n": 1}
            yield page.follow("/more")
            raise ValueError("half-way")
        """,
        [f"{origin.url}/x"],
    )
    assert await bench.items(summary.run.id) == []
    assert "/more" not in origin.visits


async def test_a_redirect_is_followed_within_the_scope_only(bench, origin):
    places = {"/old": "/new", "/away": "http://127.0.0.2:1/"}

    def answer(path):
        if path in places:
            return Answer(status=301, headers={"Location": places[path]})
        return Answer()

    origin.answer = answer
    summary = await bench.run(TITLES, [f"{origin.url}/old", f"{origin.url}/away"])
    assert [item["url"] for item in await bench.items(summary.run.id)] == [f"{origin.url}/new"]
    (letter,) = await bench.dead(summary.run.id)
    assert "OutOfScope" in letter.error


async def test_a_host_that_asks_for_time_is_given_it_and_recovers(bench, origin):
    refused = set()

    def answer(path):
        if path in ("/3", "/4") and path not in refused:
            refused.add(path)
            return Answer(status=429, headers={"Retry-After": "1"})
        return Answer()

    origin.answer = answer
    summary = await bench.run(
        TITLES, [f"{origin.url}/{number}" for number in range(60)], changes=["rate=50/s", "per_host=4"]
    )
    assert summary.snapshot.stats.completed == 60
    times = [moment for moment, _ in origin.moments]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) >= 0.8  # the pause that was asked for
    assert sorted(gaps[-10:])[5] < 0.1  # and then 50 requests a second again


@pytest.mark.parametrize("rate", ["50/s", "none"])
async def test_no_start_that_was_planned_before_the_crawl_delay_was_known_is_made(bench, origin, rate):
    rules = "User-agent: *\nCrawl-delay: 1"
    origin.answer = lambda path: Answer(rules if path == "/robots.txt" else "<title>x</title>")
    summary = await bench.run(
        TITLES,
        [f"{origin.url}/{number}" for number in range(4)],
        changes=["robots=true", "per_host=4", f"rate={rate}"],
    )
    assert summary.snapshot.stats.completed == 4
    times = [moment for moment, path in origin.moments if path != "/robots.txt"]
    assert len(times) == 4
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))


@pytest.mark.parametrize("rate", ["none", "20/s", "4/s"])
async def test_a_pause_between_tasks_is_kept_and_costs_no_more_at_any_rate(bench, origin, rate):
    summary = await bench.run(
        TITLES,
        [f"{origin.url}/{number}" for number in range(8)],
        changes=["pause=0.3-0.5s", f"rate={rate}"],
    )
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (8, 0)
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(origin.moments)]
    assert all(gap >= 0.29 for gap in gaps)
    # Where a claim during the pause had its start missed, a task took several pauses.
    assert sum(gaps) < 2 * 0.5 * len(gaps)


FILES = {
    "/": Answer(
        "".join(f"<a href=/{name}>x</a>" for name in ("a.pdf", "b.svg", "c.erl", "d.json", "e.html"))
    ),
    "/a.pdf": Answer(b"%PDF-1.7 \0", headers={"Content-Type": "application/pdf"}),
    "/b.svg": Answer("<svg/>", headers={"Content-Type": "image/svg+xml"}),
    "/c.erl": Answer("-module(c).", headers={"Content-Type": "application/octet-stream"}),
    "/d.json": Answer("{}", headers={"Content-Type": "application/json; charset=utf-8"}),
    "/e.html": Answer("<p>e"),
}
FILES_SCRAPER = """
    site = Scraper("site", rate=None, robots=False, retries=0{settings})

    @site.step
    async def page(page: Page):
        yield {{"url": page.url.rpartition("/")[2], "size": len(page.body)}}
        if not page.task.depth:
            for link in page.links():
                yield page.follow(link)
"""


async def test_files_behind_links_are_counted_and_not_given_to_steps_unless_they_are_wanted(bench):
    async with Origin(lambda path: FILES[path]) as site:
        for settings, wanted in (("", set()), (", content='application/pdf'", {"a.pdf"})):
            summary = await bench.run(FILES_SCRAPER.format(settings=settings), [f"{site.url}/"])
            items = await bench.items(summary.run.id)
            assert {item["url"] for item in items} == {"", "d.json", "e.html"} | wanted
            left_out = summary.snapshot.not_followed["not HTML, XML, JSON or text"]
            assert (left_out.count, left_out.option) == (3 - len(wanted), "--set content=any")
            assert summary.snapshot.stats.dead == 0 and summary.snapshot.pages == len(items)
        seeded = await bench.run(FILES_SCRAPER.format(settings=""), [f"{site.url}/a.pdf"])
        (letter,) = await bench.dead(seeded.run.id)
    assert "NotAPage: The host sent application/pdf" in letter.error
    assert "--set content=application/pdf" in letter.error
