"""A run is complete or says that it is not: in its state, its exit code and every report."""

import pytest
from msgspec.structs import asdict

from shoal import connect
from shoal.cli.exits import Exit
from shoal.queue.open import open_queue
from shoal.scrape.links import traps
from shoal.worker.left_out import ROBOTS
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

MANUAL = """
from shoal import Page, Scraper

manual = Scraper("manual", rate=None, robots=False, retries=0, per_host=50)

@manual.step
async def section(page: Page):
    yield {"url": page.url, "has_code": bool(page.css("pre"))}
    yield page.follow(page.attr("link[rel=next]", "href"))
"""
EVERYTHING = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, per_host=50)

@pages.step
async def page(page: Page):
    yield {"url": page.url}
    for link in page.links():
        yield page.follow(link)
"""
LOCAL = ("--allow-private", "127.0.0.0/8")
REASON = "links deeper than max_depth were not followed"


def manual(pages):
    """A manual whose sections link to the next one only."""

    def answer(path):
        number = int(path.strip("/").removesuffix(".html") or 0)
        following = f'<link rel="next" href="/{number + 1}.html">' if number + 1 < pages else ""
        return Answer(f"<html><head>{following}</head><body>section</body></html>")

    return answer


def deep(path):
    """A tree of which each page leads to three others."""
    return Answer("".join(f"<a href='{path.rstrip('/')}/{name}'>x</a>" for name in "123"))


async def test_every_page_of_two_mirrors_of_a_manual_is_fetched_on_every_backend(any_bench, origin):
    pages = 60  # more than `max_depth` by default; one leads to one other, so that workers wait
    origin.answer = manual(pages)
    seeds = [f"{origin.url}/", f"{origin.url.replace('127.0.0.1', 'localhost')}/"]
    done = await any_bench.run(MANUAL, seeds, workers=2, run_id="r")
    assert (done.snapshot.stats.completed, done.snapshot.stats.items) == (2 * pages, 2 * pages)
    assert (done.snapshot.state, done.as_json()["not_followed"]) == ("finished", {})


async def test_a_run_that_was_cut_is_partial_in_every_report(bench, origin):
    origin.answer = deep
    done = await bench.run(EVERYTHING.replace("retries=0", "max_depth=2"), [f"{origin.url}/"], run_id="r")
    row = done.as_json()
    assert (row["completed"], row["state"], row["reason"]) == (13, "partial", REASON)
    assert row["not_followed"]["too deep"]["count"] == 27
    assert row["not_followed"]["too deep"]["option"] == "--set max_depth=100"
    queue = ("--queue", bench.queue_url)
    status = await typed("status", "r", "--json", *queue, folder=bench.folder)
    assert (status.row["state"], status.row["reason"]) == ("partial", REASON)
    (listed,) = (await typed("runs", "--json", *queue, folder=bench.folder)).rows
    assert (listed["state"], listed["reason"]) == ("partial", REASON)
    async with connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.run("r")
        assert [(one.state, one.reason) async for one in run.watch()] == [("partial", REASON)]
        assert (await run.not_followed())["too deep"].count == 27
        await run.purge()
        assert await app.queue.notes("runs with links cut") == {}


async def test_the_command_says_that_a_run_was_cut_and_what_lifts_it(tmp_path, origin):
    origin.answer = deep
    (tmp_path / "pages.py").write_text(EVERYTHING)
    words = ("run", "pages.py", f"--url={origin.url}/")
    done = await typed(*words, "--set", "max_depth=1", folder=tmp_path)
    assert done.code == Exit.LIMIT_REACHED, done.err
    assert f"Not complete: {REASON}." in done.err
    assert "Deeper:   --set max_depth=5 (now 1)" in done.err and "More:" not in done.err
    shown = await typed("status", folder=tmp_path)
    assert (
        f"partial, {REASON}" in shown.out and "to follow them in a new run: --set max_depth=100" in shown.out
    )
    joined = await typed(*words, "--set", "max_per_pattern=2", "--set", "max_depth=1", folder=tmp_path)
    assert joined.code == Exit.LIMIT_REACHED and "trap: " in joined.err
    await typed("enqueue", "pages.py", f"--url={origin.url}/", "--run", "w", *LOCAL, folder=tmp_path)
    worked = await typed(
        "work", "pages.py", "--run", "w", "--set", "max_depth=1", "--json", *LOCAL, folder=tmp_path
    )
    assert (worked.code, worked.row["state"]) == (Exit.LIMIT_REACHED, "partial")


def broken(path):
    if path == "/":
        return Answer("".join(f"<a href='/{name}'>x</a>" for name in ("a", "gone", "seed")))
    return Answer(status={"/gone": 410, "/seed": 404}.get(path, 200))


async def test_missing_pages_are_counted_and_missing_seeds_are_dead_letters(bench, origin):
    origin.answer = broken
    seeds = [f"{origin.url}/", f"{origin.url}/seed"]
    done = await bench.run(EVERYTHING, seeds, run_id="r")
    assert (done.snapshot.stats.dead, done.snapshot.state) == (1, "finished")
    expected = {"count": 1, "examples": [f"{origin.url}/gone"]}
    assert done.as_json()["missing"] == expected
    async with connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.run("r")
        (letter,) = await run.dead()
        assert letter.task.url == f"{origin.url}/seed"
        assert asdict(await run.missing()) == expected
        await run.purge()
        assert await app.queue.notes("left out r") == {}


async def from_script(source, url):
    """Run a scraper as the program that defines it does."""
    names = {}
    exec(source, names)
    return await names["pages"].run([url], progress=False, allow_private=["127.0.0.0/8"])


async def test_missing_pages_do_not_change_the_exit_code_unless_asked_for(tmp_path, origin):
    origin.answer = broken
    (tmp_path / "pages.py").write_text(EVERYTHING)
    words = ("run", "pages.py", f"--url={origin.url}/")
    done = await typed(*words, folder=tmp_path)
    assert done.code == Exit.OK, done.err
    assert "2 pages, 2 items, 2 missing" in done.err
    assert "Missing: 2 pages that links led to (404, 410), for example" in done.err
    status = await typed("status", "--json", folder=tmp_path)
    assert status.row["missing"]["count"] == 2
    as_json = await typed(*words, "--json", folder=tmp_path)
    assert (status.row["pages"], as_json.row["pages"], as_json.row["completed"]) == (2, 2, 4)
    result = await from_script(EVERYTHING, f"{origin.url}/")
    assert result.counts["pages"] == 2 and "2 pages, 2 items, 2 missing" in str(result)
    debugged = await typed(*words, "--debug", folder=tmp_path)
    assert "Done: 2 pages, 2 items" in debugged.err
    strict = await typed(*words, "--set", "missing=dead", folder=tmp_path)
    assert strict.code == Exit.PARTIAL and "2 dead letters" in strict.err


async def test_links_that_robots_txt_forbids_are_counted_and_do_not_make_a_run_partial(bench, origin):
    def answer(path):
        if path == "/robots.txt":
            return Answer("User-agent: *\nDisallow: /hidden")
        return Answer("<a href='/hidden'>x</a>" if path == "/" else "")

    origin.answer = answer
    done = await bench.run(EVERYTHING.replace("robots=False", "robots=True"), [f"{origin.url}/"], run_id="r")
    assert (done.snapshot.state, done.snapshot.stats.dead) == ("finished", 0)
    assert done.as_json()["not_followed"] == {
        ROBOTS: {"count": 1, "example": f"{origin.url}/hidden", "option": "--set robots=false"}
    }
    async with open_queue(bench.queue_url) as queue:
        assert (await queue.stats("r")).completed == 2


MAZE = """
from shoal import Scraper
from shoal.scrape.links import traps

traps.LIMIT = 60
pages = Scraper("pages", rate=None, retries=0)


@pages.step
def everything(page):
    yield {"url": page.url}
    for link in page.links():
        yield page.follow(link)
"""


@pytest.fixture
def usual_limit(monkeypatch):
    """The limit that a scraper changes in this process too, restored after the test."""
    monkeypatch.setattr(traps, "LIMIT", traps.LIMIT)


@pytest.mark.usefixtures("usual_limit")
async def test_what_is_queued_of_a_maze_is_completed_without_a_request_and_counted(bench, origin):
    fetched = []

    def maze(path):
        if path == "/robots.txt":
            return Answer(status=404)
        fetched.append(path)
        number = int(path.rpartition("/")[2] or 1)
        return Answer("".join(f'<a href="/maze/{10 * number + n}">x</a>' for n in range(10)))

    origin.answer = maze
    done = await bench.run(MAZE, [f"{origin.url}/maze/"], run_id="r")
    row = done.as_json()
    assert row["state"] == "partial" and "endless" in row["reason"]
    ((reason, skipped),) = row["not_followed"].items()
    assert reason.startswith("trap: maze in ") and reason.endswith("/maze/") and skipped["example"]
    assert skipped["option"] == "--set max_per_pattern=1000000"
    assert len(fetched) <= 200 < row["completed"]
    assert skipped["count"] >= row["completed"] - len(fetched)
