"""A producer that cron starts again and again, typed as a person would: no article is queued twice."""

import asyncio
import json

import pytest

from shoal.cli.exits import Exit
from shoal.fleet.connect import connect
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Page, Scraper

news = Scraper("news", rate=None, robots=False, retries=0, allow_private="127.0.0.0/8")

@news.step
async def listing(page: Page):
    for link in page.links():
        yield page.follow(link, step=article)

@news.step
async def article(page: Page):
    yield {"url": page.url}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "news.py").write_text(SCRAPER)
    return tmp_path


def write_sitemap(folder, origin, *numbers):
    (folder / "urls.txt").write_text("".join(f"{origin.url}/{number}\n" for number in numbers))


async def produce(folder, *words):
    words = ("--urls-file", "urls.txt", "--seed-step", "article", "--dedup", "30d", *words)
    return await typed("enqueue", "news.py", *words, folder=folder)


async def test_two_producers_that_are_started_at_once_queue_each_article_once(folder, origin):
    write_sitemap(folder, origin, *range(200))
    found = await asyncio.gather(*(produce(folder, "--json") for _ in range(3)))
    assert sum(one.row["enqueued"] for one in found) == 200, found
    assert sum(one.row["known"] for one in found) == 400


async def test_the_terminal_shows_what_was_left_out_and_a_run_without_tasks_is_not_kept(folder, origin):
    write_sitemap(folder, origin, 1, 2)
    await produce(folder)
    write_sitemap(folder, origin, 1, 2, 3)
    assert "1 task queued, 0 duplicates, 2 queued by earlier runs, 0 invalid" in (await produce(folder)).err
    nothing = await produce(folder)
    assert nothing.code == Exit.OK
    assert "Nothing new: 3 tasks queued by earlier runs. No run was created." in nothing.err
    row = (await produce(folder, "--json")).row
    assert (row["status"], row["run_id"], row["known"]) == ("nothing new", None, 3)
    assert len((await typed("runs", "--json", folder=folder)).rows) == 2


async def test_a_crawl_visits_its_listing_every_time_and_each_article_once(folder, origin):
    numbers = [1, 2]
    links = lambda: "".join(f'<a href="/{number}">x</a>' for number in numbers)  # noqa: E731
    origin.answer = lambda path: Answer(links() if path == "/" else "an article")
    words = ("run", "news.py", "--url", origin.url, "--dedup", "30d steps=article", "--json")
    first = await typed(*words, folder=folder)
    assert (first.row["completed"], first.row["items"]) == (3, 2), first.err
    numbers.append(3)
    second = await typed(*words, folder=folder)
    assert (second.row["completed"], second.row["items"]) == (2, 1), second.err
    assert origin.visits == {"/": 2, "/1": 1, "/2": 1, "/3": 1}


async def test_a_run_tells_what_was_left_out(folder, origin):
    words = ("run", "news.py", "--url", f"{origin.url}/1", "--seed-step", "article", "--dedup", "1h")
    assert (await typed(*words, folder=folder)).code == Exit.OK
    again = await typed(*words, folder=folder)
    assert (again.code, "0 pages, 0 items, 1 queued by earlier runs" in again.err) == (Exit.OK, True), again
    assert (await typed(*words, "--json", folder=folder)).row["known"] == 1


async def test_what_was_queued_can_be_forgotten(folder, origin):
    write_sitemap(folder, origin, 1, 2)
    await produce(folder)
    forgotten = await typed("forget", "news.py", "--yes", "--json", folder=folder)
    assert forgotten.row == {"scraper": "news", "forgotten": 2}
    assert (await produce(folder, "--json")).row["enqueued"] == 2
    assert (await typed("forget", "news.py", folder=folder)).code != 0  # nobody is there to be asked


async def test_the_project_file_and_python_know_the_setting(folder, origin):
    (folder / "shoal.toml").write_text(
        '[scrapers.news]\nmodule = "news.py:news"\ndedup = "30d steps=article"\n'
    )
    async with connect(f"sqlite:///{folder}/shoal.db", folder=folder) as app:
        first = await app.start("news", urls=[f"{origin.url}/1"], seed_step="article")
        second = await app.start("news", urls=[f"{origin.url}/1", f"{origin.url}/2"], seed_step="article")
        assert (first.report.added, second.report.added, second.report.known) == (1, 1, 1)
        free = await app.start(
            "news", urls=[f"{origin.url}/1"], seed_step="article", settings={"dedup": None}
        )
        assert free.report.added == 1
        assert await app.forget("news") == 2


async def test_a_run_whose_start_is_refused_stays_if_others_leave_out_what_it_has(folder, origin):
    lines = [f"{origin.url}/{number}" for number in range(6_000)]
    (folder / "urls.txt").write_text("\n".join([*lines, "nonsense"]))
    refused = await produce(folder, "--invalid", "raise")
    assert refused.code == Exit.USAGE
    (run,) = (await typed("runs", "--json", folder=folder)).rows
    assert f"Run {run['run_id']} is kept" in refused.err
    (folder / "urls.txt").write_text("\n".join(lines))
    rest = await produce(folder, "--run", run["run_id"], "--json")
    assert (rest.row["enqueued"] + rest.row["duplicate"], rest.row["known"]) == (6_000, 0)


async def test_a_wrong_setting_is_refused_in_words(folder, origin):
    write_sitemap(folder, origin, 1)
    words = ("--urls-file", "urls.txt", "--dedup", "1d steps=articel", "--json")
    refused = await typed("enqueue", "news.py", *words, folder=folder)
    assert (refused.code, "article" in json.loads(refused.out)["message"]) == (Exit.USAGE, True), refused.out
