"""What the guides for newcomers show of Shoal runs, and gives what they say."""

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from shoal.core.model import TaskState
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import typed
from tests.unit.docs import quotes_site
from tests.unit.docs.commands import in_shell
from tests.unit.docs.pages import DOCS, blocks, recorded, rows

GUIDES = {
    name: (DOCS / "how-to" / f"{name}.md").read_text()
    for name in ("from-scrapy", "from-crawlee", "from-your-own-queue")
}
OWN = GUIDES["from-your-own-queue"]
SCRAPER = (DOCS / "reference" / "scraper.md").read_text()
THEIRS = re.compile(r"^(import scrapy|from crawlee)", re.MULTILINE)
QUICK = ("--set", "rate=none", "--set", "pause=0s", "--allow-private", "127.0.0.0/8")


def ours(name):
    return [block.code for block in blocks(GUIDES[name], "python") if not THEIRS.search(block.code)]


def example(name, holding):
    """Return the one block of ours that holds these words."""
    (code,) = [code for code in ours(name) if holding in code]
    return code


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
async def site():
    async with Origin(quotes_site.answer) as site:
        yield site


@pytest.fixture
async def listings():
    """Serve the pages of the targets, each with one listing."""
    async with Origin(lambda path: Answer(f"<div class=listing><h2>{path}</h2></div>")) as site:
        yield site


@pytest.mark.parametrize("name", GUIDES)
def test_the_examples_of_others_are_python(name):
    theirs = [block.code for block in blocks(GUIDES[name], "python") if THEIRS.search(block.code)]
    assert len(theirs) == (name != "from-your-own-queue")
    for code in theirs:
        compile(code, name, "exec")


def defaults(page, head, name_at, default_at):
    """Return the default of each setting that a table of a page names in code."""
    for row in rows(page, head):
        named = re.match(r"`(\w+)`", row[name_at])
        if named and row[default_at]:
            yield (
                named[1],
                row[default_at].strip("`").replace(" ", "").replace("()", "None").replace("{}", "None"),
            )


@pytest.mark.parametrize("name", ["from-scrapy", "from-crawlee"])
def test_the_defaults_are_those_of_the_reference(name):
    reference = dict(defaults(SCRAPER, "| setting | default | may change | API | |", 0, 1))
    theirs = "Scrapy" if name == "from-scrapy" else "Crawlee"
    shown = dict(defaults(GUIDES[name], f"| {theirs} | its default | Shoal | its default |", 2, 3))
    told = {
        setting: default.replace("none", "None").partition(";")[0]
        for setting, default in shown.items()
        if setting in reference and setting != "user_agent"
    }
    assert len(told) >= 6
    assert told == {setting: reference["delay" if told[setting] == "1s" else setting] for setting in told}


def test_the_speeds_are_those_that_were_recorded():
    pages = {name: recorded(name)[0] for name in ("Scrapy", "Shoal, SQLite, 1 worker")}
    crawlee = [recorded(f"Crawlee (Parsel), {storage}")[0] for storage in ("memory", "files")]
    ours = f"Shoal with its queue on SQLite {pages['Shoal, SQLite, 1 worker']}"
    assert f"Scrapy did {pages['Scrapy']} pages a second, {ours}" in GUIDES["from-scrapy"]
    assert (
        f"{crawlee[0]} pages a second in memory and {crawlee[1]} with its files, {ours}"
        in GUIDES["from-crawlee"]
    )


@pytest.mark.parametrize("name", ["from-scrapy", "from-crawlee"])
async def test_the_scraper_that_is_shown_beside_theirs_runs(name, site, tmp_path):
    (tmp_path / "quotes.py").write_text(example(name, "async def author"))
    ran = await typed("run", "quotes.py", "--url", site.url, *QUICK, "--out", "quotes.jsonl", folder=tmp_path)
    assert ran.code == 0, ran.err
    items = lines_of(tmp_path / "quotes.jsonl")
    assert {item["author"] for item in items if "author" in item} == set(quotes_site.AUTHORS.values())
    assert {item["name"] for item in items if "name" in item} == set(quotes_site.AUTHORS.values())
    assert site.visits == {"/": 1, "/page/2": 1, "/author/jane": 1, "/author/oscar": 1, "/robots.txt": 1}


def test_the_other_examples_for_users_of_scrapy_run():
    names = {"__name__": "example"}
    for code in ours("from-scrapy"):
        exec(code, names)
    names["test_a_quote_has_its_author"]()
    shop = names["shop"]
    assert shop.parse("<h1>Hat</h1><b class=price>£9.50</b>").items == [{"name": "Hat", "price": 9.5}]
    (reject,) = shop.parse("<h1>Hat</h1><b class=price>£0.00</b>").rejects
    assert reject.reason == "not for sale"
    assert shop.login_function


async def test_a_program_in_charge_of_a_run_has_its_items(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes.py").write_text(
        example("from-crawlee", "async def author").replace('"5/s"', 'None, allow_private="127.0.0.0/8"')
    )
    names = {"__name__": "example"}
    exec(example("from-crawlee", "async def scrape_all"), names)
    items = await names["scrape_all"](f"sqlite:///{tmp_path}/queue.db", site.url)
    assert len(items) == 4


def test_the_sessions_of_the_example_are_made():
    names = {"__name__": "example"}
    exec(example("from-crawlee", "async def author"), names)
    exec(example("from-crawlee", "profile=chrome"), names)
    assert names["shop"].settings.sessions.max_uses == 50 and names["shop"].login_function


def left_csv(site):
    """Return the file that the guide shows, for the site of the test."""
    (table,) = [code for _, code in blocks(OWN, "") if code.startswith("id,url")]
    return table.replace("https://listings.example", site.url)


def own_command(holding, queue):
    """Return the command of the guide that holds these words, for the queue of a test."""
    found = [words for _, code in blocks(OWN, "") for words in in_shell(code)]
    (words,) = [words for words in found if holding in " ".join(words)]
    return [queue if word == "postgresql://db/shoal" else word for word in words[1:]]


async def pending(queue, run_id):
    async with open_queue(queue) as store:
        return {
            status.task.key: status.task async for status in store.tasks(run_id, states=[TaskState.PENDING])
        }


@pytest.mark.long
async def test_a_table_that_is_half_done_moves_over_with_its_ids(listings, tmp_path):
    queue = f"sqlite:///{tmp_path}/queue.db"
    (tmp_path / "left.csv").write_text(left_csv(listings))
    (tmp_path / "listings.py").write_text(example("from-your-own-queue", "async def target"))
    queued = await typed(*own_command("enqueue listings.py", queue), *QUICK, folder=tmp_path)
    assert queued.code == 0, queued.err
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(left_csv(listings)))}
    moved = await pending(queue, "listings_move")
    assert {key: (task.partition, f"{task.priority}", task.payload) for key, task in moved.items()} == {
        key: (row["state"], row["rank"], {"category": row["category"]}) for key, row in rows.items()
    }
    worked = await typed(*own_command("work listings.py", queue), *QUICK, folder=tmp_path)
    assert worked.code == 0, worked.err
    words = [
        word.replace("postgresql://db/shop", "sqlite:///shop.db") for word in own_command("export", queue)
    ]
    for _ in range(2):
        exported = await typed(*words, folder=tmp_path)
        assert exported.code == 0, exported.err
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        found = shop.execute("SELECT target_id, category FROM found").fetchall()
    assert sorted(found) == sorted((int(key), row["category"]) for key, row in rows.items())


async def test_rows_of_a_cursor_become_tasks_and_enter_once(tmp_path):
    names = {"__name__": "example"}
    exec(example("from-your-own-queue", "async def target"), names)
    exec(example("from-your-own-queue", "async def move"), names)

    async def cursor():
        for number in range(3):
            url = f"https://listings.example/{number}"
            yield {"id": number, "url": url, "state": "CA", "category": "bars", "priority": number}

    queue = f"sqlite:///{tmp_path}/queue.db"
    assert await names["move"](cursor(), queue) == "3 added, 0 were there, 0 are no tasks"
    assert await names["move"](cursor(), queue) == "0 added, 3 were there, 0 are no tasks"
    assert {key: task.priority for key, task in (await pending(queue, "listings_move")).items()} == {
        "0": 9,
        "1": 8,
        "2": 7,
    }


async def test_records_go_on_from_the_stage_that_they_had_reached(tmp_path):
    queue = f"sqlite:///{tmp_path}/queue.db"
    stages = (DOCS / "how-to" / "stages.md").read_text()
    (people, *_) = [code for _, code in blocks(stages, "python")]
    (lines,) = [code for _, code in blocks(OWN, "") if code.startswith('{"url"')]
    (tmp_path / "people.py").write_text(people)
    (tmp_path / "people.jsonl").write_text(lines)
    queued = await typed(*own_command("enqueue people.py", queue), folder=tmp_path)
    assert queued.code == 0, queued.err
    moved = await pending(queue, "people_move")
    assert {key: task.step for key, task in moved.items()} == {
        "ann": "profile",
        "bob": "enhanced",
        "eve": "profile",
    }
    assert moved["bob"].payload == {"name": "bob", "title": "Engineer"}
    assert moved["eve"].ttl == timedelta(days=1) and moved["eve"].priority == 9
    (found,) = (await typed(*own_command("records people_move", queue), "--json", folder=tmp_path)).rows
    assert list(found["steps"]) == ["enhanced"]


async def test_a_fetcher_of_your_own_gets_the_tasks_and_shoal_sends_no_request(listings, tmp_path):
    (tmp_path / "left.csv").write_text(left_csv(listings))
    (tmp_path / "bridge.py").write_text(example("from-your-own-queue", "def crawl_single_target"))
    words = ["run", "bridge.py", "--urls-file", "left.csv", "--partition", "state", "--out", "found.jsonl"]
    ran = await typed(*words, *QUICK, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert sorted(item["state"] for item in lines_of(tmp_path / "found.jsonl")) == ["CA", "CA", "NY"]
    assert not listings.visits
