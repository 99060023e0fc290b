"""Feeds become tasks with what they say of each entry; what is wrong with one is counted and named."""

import json
from datetime import UTC, datetime

import pytest

from shoal.core.errors import ConnectFailed, ParseFailed
from shoal.core.http import Headers, Response
from shoal.core.model import ZERO, Task
from shoal.core.tasks import iterate
from shoal.discover.source import Refusal, SourceOptions
from shoal.discover.webfeeds import WebFeeds
from shoal.scrape.page import Page

RSS = """<rss version="2.0"><channel><title>News</title>
<item><title>One &amp; only</title><link>/a</link><guid>g1</guid>
<pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item>
<item><title>Two</title><link>https://blog.example.com/b</link>
<pubDate>Sun, 01 Feb 2015 10:00:00 GMT</pubDate></item>
<item><title>Three</title></item>
<item><link>https://other.org/c</link></item>
<item><link>javascript:alert(1)</link></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><title>A</title><id>urn:1</id>
<link href="https://example.com/x"/><updated>2026-02-02T10:00:00Z</updated><author><name>Ann</name></author></entry></feed>"""
JSON = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "J",
        "items": [
            {
                "id": 7,
                "url": "/j",
                "title": "Jay",
                "date_published": "2026-02-02",
                "authors": [{"name": "Bo"}],
            },
            "no item",
        ],
    }
)
FEEDS = {"/rss": RSS, "/atom": ATOM, "/json": JSON, "/html": "<html><p>Hello", "/odd": '{"version": 1}'}


async def fetch(request):
    path = request.url.removeprefix("https://www.example.com")
    if path == "/down":
        raise ConnectFailed("nothing listens")
    if path not in FEEDS:
        return Response(url=request.url, status=404)
    headers = Headers([("content-type", "application/xml; charset=utf-8")])
    return Response(url=request.url, status=200, headers=headers, body=FEEDS[path].encode())


async def no_sleep(seconds):
    return None


def feeds(*paths, **options):
    options = SourceOptions(step="main", fetch=fetch, delay=ZERO, **options)
    read = lambda response: Page(response, Task(url=response.url)).feed()  # noqa: E731
    return WebFeeds([f"https://www.example.com{path}" for path in paths], options, read, sleep=no_sleep)


async def found(source):
    return [one async for one in iterate(source)]


async def test_the_entries_of_rss_atom_and_json_become_tasks_with_what_the_feed_says():
    source = feeds("/rss", "/atom", "/json")
    tasks = [one for one in await found(source) if isinstance(one, Task)]
    assert [(task.url, dict(task.payload)) for task in tasks] == [
        (
            "https://www.example.com/a",
            {"id": "g1", "title": "One & only", "published": "Mon, 02 Feb 2026 10:00:00 GMT"},
        ),
        ("https://blog.example.com/b", {"title": "Two", "published": "Sun, 01 Feb 2015 10:00:00 GMT"}),
        (
            "https://example.com/x",
            {"id": "urn:1", "title": "A", "updated": "2026-02-02T10:00:00Z", "author": "Ann"},
        ),
        ("https://www.example.com/j", {"id": "7", "title": "Jay", "published": "2026-02-02", "author": "Bo"}),
    ]
    assert (source.report.files, source.report.urls, source.report.source) == (3, 4, "feed")


async def test_entries_without_a_link_or_on_another_site_are_refused_and_counted():
    source = feeds("/rss")
    refused = [one for one in await found(source) if isinstance(one, Refusal)]
    assert [(one.where.rpartition(" ")[2], one.text) for one in refused] == [
        ("3", "Three"),
        ("4", "https://other.org/c"),
        ("5", ""),
    ]
    assert "--feed-hosts" in refused[1].reason
    assert source.report.skipped == {"no address": 2, "another host": 1}


@pytest.mark.parametrize("pattern", ["*", "other.org", "*.org"])
async def test_other_hosts_can_be_allowed(pattern):
    urls = [one.url for one in await found(feeds("/rss", hosts=[pattern])) if isinstance(one, Task)]
    assert "https://other.org/c" in urls


async def test_older_entries_are_left_out_and_those_without_a_date_kept():
    source = feeds("/rss", since=datetime(2026, 1, 1, tzinfo=UTC), hosts=["*"])
    urls = [one.url for one in await found(source) if isinstance(one, Task)]
    assert urls == ["https://www.example.com/a", "https://other.org/c"]
    assert source.report.skipped["older"] == 1


async def test_a_feed_that_cannot_be_read_is_named_and_the_others_are_read():
    source = feeds("/missing", "/html", "/odd", "/down", "/atom")
    assert len(await found(source)) == 1
    assert {problem.url.rpartition("/")[2]: problem.reason for problem in source.report.problems} == {
        "missing": "status 404",
        "html": "The page is no RSS, Atom or JSON feed",
        "odd": "The page is JSON, but no JSON Feed: it has no version of jsonfeed.org",
        "down": "ConnectFailed: nothing listens",
    }


@pytest.mark.parametrize("body", ["{", '{"version": "https://jsonfeed.org/version/1"}', "{" * 100_000, "[]"])
def test_odd_json_is_a_feed_without_entries_or_no_feed(body):
    page = Page(
        Response(url="https://example.com/", status=200, body=body.encode()), Task(url="https://example.com/")
    )
    try:
        assert page.feed()["entries"] == []
    except ParseFailed as error:
        assert "JSON" in str(error)


async def test_half_a_pair_of_surrogates_does_not_end_the_reading(monkeypatch):
    whole = json.dumps(
        {
            "version": "https://jsonfeed.org/version/1.1",
            "title": "J\ud83d",
            "items": [
                {"id": "\udc00", "url": "/j", "title": "cut \ud83d"},
                {"url": "/k", "title": "fine 🐟"},
            ],
        }
    )
    monkeypatch.setitem(FEEDS, "/cut", whole)
    tasks = await found(feeds("/cut"))
    assert [task.url for task in tasks] == ["https://www.example.com/j", "https://www.example.com/k"]
    assert [task.payload["title"] for task in tasks] == ["cut \ufffd", "fine 🐟"]
    assert tasks[0].payload["id"] == "\ufffd"
