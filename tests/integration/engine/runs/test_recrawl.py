"""A run once more, typed as a person would."""

import asyncio
import os
import re
import signal
import sqlite3
from datetime import UTC, datetime

import pytest

from shoal import Scraper, connect, open_queue
from shoal.cli.exits import Exit
from shoal.core.errors import InvalidSetting, RunConflict, UnknownRun
from shoal.fleet.sources.recrawl import recrawl_tasks
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import start, typed

KILLED_PAGES, KILLS = 600, 4

SCRAPER = """
from shoal import Page, Scraper

news = Scraper("news", rate=None, robots=False, retries=0, recrawl=True, allow_private="127.0.0.0/8")

@news.step
async def article(page: Page):
    print("read", page.url)
    yield {"title": page.text("title")}

other = Scraper("other", rate=None)

@other.step
async def anything(page: Page):
    yield {}
"""


class TaggedOrigin(Origin):
    """A site that answers 304 to who knows its page already."""

    def __init__(self):
        super().__init__(self._tagged)
        self.titles = {f"/{number}": f"Title {number}" for number in range(6)}
        self.unchanged = 0

    def _tagged(self, path):
        if path not in self.titles:
            return Answer(status=404)
        return Answer(f"<title>{self.titles[path]}</title>", headers={"ETag": f'"{self.titles[path]}"'})

    async def _serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ", 2)[1]
                self.visits[path] += 1
                if f'if-none-match: "{self.titles.get(path)}"'.lower() in head.lower():
                    self.unchanged += 1
                    writer.write(b"HTTP/1.1 304 Not Modified\r\n\r\n")
                else:
                    writer.write(self.answer(path).encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def site():
    async with TaggedOrigin() as site:
        yield site


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "news.py").write_text(SCRAPER)
    return tmp_path


async def run(folder, *words):
    return await typed("run", "news.py:news", "--json", *words, folder=folder)


async def test_pages_that_are_unchanged_are_not_read_again_and_still_have_their_items(folder, site):
    first = await run(folder, *(f"--url={site.url}{path}" for path in site.titles))
    assert first.row["items"] == 6 and "new" not in first.row
    site.titles["/2"] = "Title two"
    del site.titles["/4"]
    site.titles["/9"] = "Title 9"
    second = await run(folder, "--again", first.row["run_id"], f"--url={site.url}/9", "--warc", "a.warc.gz")
    assert second.code == Exit.OK
    assert {name: second.row[name] for name in ("new", "changed", "unchanged", "gone")} == {
        "new": 1,
        "changed": 1,
        "unchanged": 4,
        "gone": 1,
    }
    listed = await typed("changes", second.row["run_id"][:-1], "--json", folder=folder)
    rows = {row["url"].removeprefix(site.url): row for row in listed.rows}
    assert {path: row["change"] for path, row in rows.items()} == {
        "/2": "changed",
        "/4": "gone",
        "/9": "new",
    }
    assert (rows["/2"]["field"], rows["/2"]["old"], rows["/2"]["new"]) == ("title", "Title 2", "Title two")
    await typed("changes", "newest", "--only", "changed", "--to", "changes.csv", folder=folder)
    assert (folder / "changes.csv").read_text().splitlines() == [
        "change,step,url,item,field,old,new,info",
        f"changed,article,{site.url}/2,1,title,Title 2,Title two,",
    ]
    assert site.unchanged == 4
    assert second.err.count("read http") == 2  # the step saw what is new and what has changed
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        titles = sorted([item.data["title"] async for item in queue.items(second.row["run_id"])])
    assert titles == sorted(site.titles.values())
    assert (folder / "a.warc.gz").stat().st_size > 0  # also of answers without a body

    shown = await typed("run", "news.py:news", "--again", "newest", folder=folder)
    assert "Compared with the earlier run: 0 new, 0 changed, 6 unchanged, " in shown.err
    assert "Changes:  shoal changes " in shown.err


async def test_one_command_resumes_a_run_that_was_stopped_or_starts_a_new_one(folder, site):
    words = ("--resume", "auto", *(f"--url={site.url}{path}" for path in site.titles))
    first = await run(folder, *words, "--set=max_pages=100")
    assert (first.code, first.row["pages"]) == (Exit.OK, 6)
    second = await run(folder, *words, "--again", "newest")
    assert second.row["unchanged"] == 6 and second.row["run_id"] != first.row["run_id"]
    await typed("enqueue", "news.py:news", f"--url={site.url}/1", "--again=newest", folder=folder)
    third = await run(folder, *words, "--again", "newest")
    assert third.code == Exit.OK and third.row["unchanged"] == 6
    assert len((await typed("runs", "--json", folder=folder)).rows) == 3
    refused = await run(folder, "--resume", "auto")
    assert refused.code == Exit.USAGE and "No URLs to start with" in refused.row["message"]


async def test_what_cannot_be_done_again_is_refused_before_a_run_is_made(folder, site):
    refused = await run(folder, "--again", "newest")
    assert (refused.code, refused.row["error"]) == (Exit.USAGE, "InvalidSetting")
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        assert not await queue.runs()


@pytest.mark.parametrize(
    ("name", "wanted", "kind", "says"),
    [
        ("news", "nothing", UnknownRun, "No run is called 'nothing'"),
        ("other", "empty", RunConflict, "belongs to scraper 'news'"),
        ("other", "newest", InvalidSetting, "found no run of 'other'"),
        ("news", "empty", InvalidSetting, "found no page of run empty. Set recrawl=True"),
        ("news", "newest", InvalidSetting, "found no page of run empty"),
    ],
)
async def test_a_run_that_cannot_be_done_again_is_named(tmp_path, name, wanted, kind, says):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        await queue.start_run("news", run_id="empty")
        with pytest.raises(kind, match=re.escape(says)):
            await recrawl_tasks(queue, Scraper(name, again=wanted))


ADAPTIVE = """
from shoal import Page, Scraper

news = Scraper(
    "news", rate="4/s", robots=False, retries=0, recrawl=True, revisit="1d..30d", allow_private="127.0.0.0/8"
)

@news.step
async def article(page: Page):
    yield {"title": page.text("title")}
"""


def let_days_pass(folder, days):
    """Move all visits of pages, and the plans of runs, into the past."""
    with sqlite3.connect(folder / "shoal.db") as store:
        store.execute(
            "UPDATE note SET written_at = written_at - ? WHERE topic IN ('pages:news', 'revisit plans')",
            (days * 86_400_000_000,),
        )


async def test_only_pages_that_are_due_are_fetched_and_all_items_are_there(folder, site):
    (folder / "news.py").write_text(ADAPTIVE)
    urls = [f"--url={site.url}{path}" for path in site.titles]
    first = await run(folder, *urls, "--set=rate=none")
    assert (first.row["pages"], first.row["items"]) == (6, 6)
    site.visits.clear()

    nothing = await run(folder, *urls)
    assert not site.visits
    counts = {"pages": 0, "items": 6, "not_due": 6, "over_budget": 0, "unchanged": 0, "gone": 0}
    assert {name: nothing.row[name] for name in counts} == counts
    assert nothing.row["not_followed"]["pages not due (revisit)"]["count"] == 6
    assert nothing.row["seconds"] < 1.5  # no page waited for a turn of its host
    status = await typed("status", nothing.row["run_id"], folder=folder)
    assert "Not fetched: 6 pages not due (revisit)" in status.out

    let_days_pass(folder, 1)
    site.titles["/1"] = "Title one"
    planned = (await typed("recrawl", "plan", "news", "--json", folder=folder)).row
    assert (planned["fetch"], planned["reasons"]["due"], len(planned["pages"])) == (6, 6, 6)
    words = ("--set", "revisit_pages=4", "--set", "rate=none")
    some = await typed("run", "news.py:news", *urls, *words, folder=folder)
    assert sum(site.visits.values()) == 4
    assert ", 2 due and left for the next run." in some.err and "Not fetched" not in some.err
    plan = await typed("recrawl", "plan", folder=folder)
    assert "would fetch 2 of 6 pages (revisit 24 h 0 min to 30 d): 2 due, 0 with a new date" in plan.err
    # The other two may be those that have changed: all are compared with their last fetch, whenever it was.
    last = await run(folder, *urls, "--set=rate=none")
    rows = [row for name in (some, last) for row in await changes_of(folder, name)]
    assert [(row["change"], row["new"]) for row in rows] == [("changed", "Title one")]
    assert (last.row["not_due"], sum(site.visits.values())) == (4, 6)
    listed = await typed("changes", "newest", "--only", "not_due", "--json", folder=folder)
    assert len(listed.rows) == 4


async def changes_of(folder, finished):
    name = re.search(r"[0-9]{8}_[0-9]{6}_\w{4}", finished.out + finished.err)[0]
    return (await typed("changes", name, "--json", folder=folder)).rows


async def test_a_page_whose_date_in_the_sitemap_is_new_is_fetched_and_one_that_fails_is_not_forgotten(
    folder, site
):
    (folder / "news.py").write_text(ADAPTIVE)
    dates = dict.fromkeys(site.titles, "2020-01-01")
    serve = site.answer

    def answer(path):
        if path != "/sitemap.xml":
            return Answer(status=503) if path == "/5" and broken else serve(path)
        entries = "".join(
            f"<url><loc>{site.url}{path}</loc><lastmod>{date}</lastmod></url>" for path, date in dates.items()
        )
        return Answer(f"<urlset>{entries}</urlset>")

    site.answer, broken = answer, False
    words = ("--sitemap", f"{site.url}/sitemap.xml", "--set=rate=none")
    assert (await run(folder, *words)).row["pages"] == 6
    site.visits.clear()
    # Its interval is one day, but its sitemap says that nothing has changed.
    let_days_pass(folder, 3)
    site.titles["/2"], dates["/2"] = "Title two", datetime.now(UTC).isoformat()
    second = await run(folder, *words)
    assert (second.row["changed"], second.row["not_due"]) == (1, 5)
    assert dict(site.visits) == {"/sitemap.xml": 1, "/2": 1}
    # Without the sitemap its dates are old.
    broken, site.titles["/5"] = True, "Title five"
    third = await typed(
        "run", "news.py:news", "--again", "newest", "--json", "--set=rate=none", folder=folder
    )
    assert (third.row["unchanged"], third.row["failed"], third.row["not_due"]) == (4, 1, 1)
    broken = False
    fourth = await typed("run", "news.py:news", "--again", "newest", "--json", folder=folder)
    assert (fourth.row["changed"], fourth.row["not_due"], fourth.row["failed"]) == (1, 5, 0)


async def test_after_a_run_that_was_stopped_the_next_one_has_all_pages(folder, site):
    (folder / "news.py").write_text(ADAPTIVE)
    urls = [f"--url={site.url}{path}" for path in site.titles]
    assert (await run(folder, *urls, "--set=rate=none")).row["items"] == 6
    let_days_pass(folder, 2)
    stopped = await run(folder, *urls[:1], "--for", "1s", "--set=rate=30/m")
    assert stopped.code == Exit.TIMED_OUT and stopped.row["items"] < 6
    cancelled = (await typed("cancel", stopped.row["run_id"], "--json", folder=folder)).row
    assert cancelled["state"] == "cancelled"
    third = await run(folder, *urls[:1], "--set=rate=none")
    assert (third.code, third.row["items"]) == (Exit.OK, 6)
    assert third.row["not_due"] == stopped.row["pages"] == 6 - third.row["pages"]


async def test_a_run_that_is_paused_goes_on_with_the_pages_that_it_has_chosen(folder, site):
    (folder / "news.py").write_text(ADAPTIVE)
    urls = [f"--url={site.url}{path}" for path in site.titles]
    await run(folder, *urls, "--set=rate=none")
    let_days_pass(folder, 2)
    site.visits.clear()
    words = ("news.py:news", *urls, "--json", "--set=rate=1/s", "--set=revisit_pages=4", "--run=second")
    running = asyncio.create_task(typed("run", *words, folder=folder))
    while not site.visits:
        await asyncio.sleep(0.01)
    assert (await typed("pause", "second", folder=folder)).code == Exit.OK
    before = site.visits.total()
    assert before < 4
    let_days_pass(folder, 1)  # also what was fetched before the pause is old now, and is not fetched again
    assert (await typed("resume", "second", folder=folder)).code == Exit.OK
    done = await running
    assert (done.code, done.row["items"]) == (Exit.OK, 6)
    assert site.visits.total() == 4 and max(site.visits.values()) == 1
    counts = {name: done.row[name] for name in ("unchanged", "over_budget", "not_due", "new")}
    assert counts == {"unchanged": 4, "over_budget": 2, "not_due": 0, "new": 0}


async def test_a_call_on_demand_fetches_a_page_that_is_not_due_and_no_run_begins_with_its_pages(folder, site):
    (folder / "news.py").write_text(ADAPTIVE)
    urls = [f"--url={site.url}{path}" for path in site.titles]
    await run(folder, *urls, "--set=rate=none")
    site.visits.clear()
    site.titles["/1"] = "Title one"
    async with connect(f"sqlite:///{folder}/shoal.db", folder=folder) as app:
        await app.listen(f"{folder}/news.py:news")
        assert await app.scrape(f"{folder}/news.py:news", f"{site.url}/1") == [{"title": "Title one"}]
    assert dict(site.visits) == {"/1": 1}
    second = await run(folder, *urls[:1], "--set=rate=none")
    assert (second.row["items"], second.row["not_due"], second.row["pages"]) == (6, 6, 0)


async def test_a_recrawl_begins_with_every_page_of_a_run_that_was_killed_again_and_again(folder):
    async with Origin(lambda path: Answer(f"<title>{path}</title>")) as site:
        addresses = [f"{site.url}/{number}" for number in range(KILLED_PAGES)]
        (folder / "urls.txt").write_text("\n".join(addresses))
        words = ["run", "news.py:news", "--urls-file", "urls.txt", "--set", "rate=400/s", "--workers", "2"]
        for kill in range(1, KILLS + 1):
            process = await start(*words, folder=folder)
            while len(site.visits) < kill * KILLED_PAGES / (KILLS + 1):
                assert process.returncode is None, await process.communicate()
                await asyncio.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
            words = ["run", "news.py:news", "--resume", "newest", "--workers", "2"]
        done = await typed(*words, folder=folder)
        assert done.code == 0, done.err
        again = await typed("run", "news.py:news", "--again", "newest", "--set", "rate=none", folder=folder)
        assert f"0 new, 0 changed, {KILLED_PAGES} unchanged, 0 gone" in again.err
