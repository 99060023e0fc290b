"""Whole runs: a real queue, real worker processes, a real site."""

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
    summary = await bench.run(TITLES, [f"{origin.url}/{number}" for number in range(50)])
    items = await bench.items(summary.run.id)
    assert sorted(item["title"] for item in items) == sorted(f"Page /{number}" for number in range(50))
    assert set(origin.visits.values()) == {1}
    assert summary.as_json() | {"run_id": "", "seconds": 0, "pages_per_second": 0} == {
        "run_id": "",
        "compared_with": [],
        "enqueued": 50,
        "completed": 50,
        "pages": 50,
        "dead": 0,
        "expired": 0,
        "lost": 0,
        "items": 50,
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


async def test_no_start_that_was_planned_before_the_crawl_delay_was_known_is_made(bench, origin):
    rules = "User-agent: *\nCrawl-delay: 1"
    origin.answer = lambda path: Answer(rules if path == "/robots.txt" else "<title>x</title>")
    summary = await bench.run(
        TITLES,
        [f"{origin.url}/{number}" for number in range(4)],
        changes=["robots=true", "per_host=4", "rate=50/s"],
    )
    assert summary.snapshot.stats.completed == 4
    times = [moment for moment, path in origin.moments if path != "/robots.txt"]
    assert len(times) == 4
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))


@pytest.mark.parametrize("rate", ["none", "4/s"])
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
