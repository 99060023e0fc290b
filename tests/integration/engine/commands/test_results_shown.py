"""Looking at the results of a run from the command line: items, rejects, first errors, empty fields."""

import pytest

from shoal.cli.exits import Exit
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

SCRAPER = """
from dataclasses import dataclass
from shoal import Scraper

books = Scraper("books", rate=None, robots=False, retries=0)

@dataclass
class Book:
    title: str
    price: float

@books.step
async def book(page):
    if "none" in page.url:
        return
    if "bad" in page.url:
        raise ValueError("no such shelf")
    yield {"title": page.text("h1"), "price": None, "tags": []}

@books.step(item=Book)
async def strict(page):
    yield {"title": "a", "price": "x"}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "books.py").write_text(SCRAPER)
    return tmp_path


@pytest.fixture
def shop(origin):
    origin.answer = lambda path: Answer(body="<h1>A book</h1>")
    return origin


async def run(folder, *urls, step="book", json=False):
    words = [word for url in urls for word in ("--url", url)]
    return await typed(
        "run", "books.py", *words, "--seed-step", step, *(["--json"] if json else []), folder=folder
    )


async def test_the_summary_tells_the_first_error_and_the_fields_that_stay_empty(shop, folder):
    ended = await run(folder, f"{shop.url}/1", f"{shop.url}/2", f"{shop.url}/bad")
    assert "ValueError: no such shelf" in ended.err, ended.err
    assert "First ValueError" not in ended.err  # with its traceback, and not once more
    assert "Warning: empty in all 2 items of step book that were looked at: price, tags." in ended.err
    assert "Queue:    sqlite:///shoal.db" in ended.err
    shown = await typed("items", "--fields", "title,nothing", folder=folder)
    assert shown.out.count("A book") == 2
    assert "No item here has: nothing. Its fields: price, tags, title" in shown.err
    (one,) = (await typed("items", "newest", "--sample", "1", "--step", "book", "--json", folder=folder)).rows
    assert one["data"] == {"title": "A book", "price": None, "tags": []}
    assert one["url"].startswith(f"{shop.url}/")


async def test_a_run_whose_items_are_all_rejected_says_why_and_how_to_see_them(shop, folder):
    ended = await run(folder, f"{shop.url}/1", step="strict")
    assert "First reject: price: Expected `float`, got `str` ('x')" in ended.err
    assert "Rejected: shoal rejects 2" in ended.err
    assert "gave no items" not in ended.err
    (one,) = (await typed("rejects", "newest", "--reason", "PRICE", "--json", folder=folder)).rows
    assert one["data"] == {"title": "a", "price": "x"}
    other = await typed("rejects", "--reason", "title", folder=folder)
    assert "The only rejected item does not match --reason title." in other.err


async def test_a_run_without_items_warns_and_names_a_page_to_try(shop, folder):
    ended = await run(folder, f"{shop.url}/none?page=2")
    look = f"shoal shell '{shop.url}/none?page=2'"
    assert f"Warning: 1 page gave no items. Try the selectors on a page: {look}" in ended.err
    told = (await run(folder, f"{shop.url}/1", json=True)).row
    assert told["empty_fields"] == {"book": {"fields": ["price", "tags"], "items": 1}}
    assert (told["first_errors"], told["first_reject"], told["queue"]) == ({}, None, "sqlite:///shoal.db")


async def test_a_filled_run_waits_for_its_first_worker_and_is_found_by_the_start_of_its_id(folder):
    await typed("enqueue", "books.py", "--url", "https://a.example/", "--run", "nightly-1", folder=folder)
    (row,) = (await typed("runs", "--json", folder=folder)).rows
    assert (row["state"], row["queue"]) == ("waiting", "sqlite:///shoal.db")
    shown = await typed("status", "night", folder=folder)
    assert "Run nightly-1 of books: waiting" in shown.out
    assert "1 task left, and no worker works on it" in shown.out
    assert (await typed("pause", "newest", "--json", folder=folder)).row["state"] == "paused"
    assert (await typed("resume", "nightly", "--json", folder=folder)).code == Exit.OK
    more = await typed("enqueue", "books.py", "--url", "https://b.example/", "--run", "newest", folder=folder)
    assert "Run nightly-1: 1 task queued" in more.err
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        assert (await queue.stats("nightly-1")).tasks == 2
    assert (await typed("purge", "newest", "--yes", folder=folder)).err == "Deleted run nightly-1.\n"
    assert (await typed("watch", "newest", folder=folder)).code == Exit.USAGE
