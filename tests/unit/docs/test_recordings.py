"""The pages on caching, recording and recrawling say what is there, and their examples run."""

import asyncio
import re
from pathlib import Path

import pytest

from shoal.core.http import Headers, Request, Response
from shoal.export.archive.warc import WarcWriter
from shoal.fetch.cache import fetcher, rules
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker import recrawl

FOLDER = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = {name: (FOLDER / f"{name}.md").read_text() for name in ("cache", "offline", "recrawl")}


def examples(name):
    return re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)


async def record(file):
    """Record the book of the example."""
    url = "https://example.com/dune"
    writer = WarcWriter.open(file, user_agent="shoal")
    fields = Headers([("content-type", "text/html")])
    await writer.write(Request(url=url), Response(url=url, status=200, headers=fields, body=b"<h1>Dune</h1>"))
    await writer.close()


async def test_the_tests_of_the_examples_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await record("books.warc.gz")
    names = {"__name__": "example"}
    for example in examples("offline"):
        exec(example, names)
    await names["test_the_title_is_found"]()
    names["test_the_shop_is_read_as_it_was_recorded"]()


@pytest.mark.parametrize("name", ["cache", "recrawl"])
def test_the_scrapers_of_the_examples_are_made(name):
    for example in examples(name):
        exec(example, {"__name__": "example"})
    assert examples(name)


@pytest.mark.parametrize(
    "value", re.findall(r"^\| `([^`]*)`(?:, `([^`]*)`)*", PAGES["cache"], re.MULTILINE)[1:]
)
def test_every_cache_that_is_shown_can_be_read(value):
    for text in filter(None, value):
        ScraperSettings.read(cache=text)


def test_the_numbers_are_those_of_the_code():
    statuses = ", ".join(map(str, sorted(rules.CACHEABLE_BY_DEFAULT)))
    first, _, last = statuses.rpartition(", ")
    assert f"Cached are responses with status {first} and {last}" in PAGES["cache"]
    assert f"{fetcher.MAX_ENTRY_SIZE >> 20} MB compressed" in PAGES["cache"]
    assert fetcher.STALE_TTL.days == 1 and "for a day" in PAGES["cache"]
    assert (recrawl.VISIT_TTL.days, recrawl.MAX_HARVEST) == (365, 1 << 20)
    assert all(words in PAGES["recrawl"] for words in ("for a year", "more than 1 MB"))


def test_a_playback_needs_no_loop_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asyncio.run(record("books.warc.gz"))
    names = {"__name__": "example"}
    for example in examples("offline"):
        exec(example, names)
    names["test_the_shop_is_read_as_it_was_recorded"]()
