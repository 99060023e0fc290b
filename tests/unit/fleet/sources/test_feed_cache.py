"""A feed that has not changed since an earlier run is read from the queue."""

from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.http import Headers, Request, Response
from shoal.core.model import Note
from shoal.fleet.sources.kinds import FeedCache

URL = "https://example.com/feed"


class Notes:
    def __init__(self):
        self.kept, self.fails = {}, False

    async def notes(self, topic, keys=None):
        if self.fails:
            raise QueueUnavailable("queue", "away")
        return {
            key: Note(value=self.kept[key], stamp=1, age=timedelta(0)) for key in keys if key in self.kept
        }

    async def write_notes(self, topic, values, *, ttl=None):
        if self.fails:
            raise QueueUnavailable("queue", "away")
        self.kept |= values


class Host:
    def __init__(self, **headers):
        self.headers, self.body, self.seen = headers, b"<rss/>", []

    async def fetch(self, request):
        self.seen.append(dict(request.headers))
        is_same = request.headers.get("if-none-match") == self.headers.get("etag") is not None
        if is_same:
            return Response(url=request.url, status=304)
        headers = Headers([("content-type", "application/rss+xml"), *self.headers.items()])
        return Response(url=f"{URL}.xml", status=200, headers=headers, body=self.body)


@pytest.fixture
def notes():
    return Notes()


async def read(notes, host, scraper="news"):
    return await FeedCache(notes, scraper, host.fetch).fetch(Request(url=URL))


async def test_an_unchanged_feed_comes_from_the_queue_and_a_changed_one_from_its_host(notes):
    host = Host(etag='"1"')
    first = await read(notes, host)
    again = await read(notes, host)
    assert host.seen == [{}, {"if-none-match": '"1"'}]
    assert (again.url, again.status, again.body) == (first.url, 200, b"<rss/>")
    assert again.headers["content-type"] == "application/rss+xml"
    host.headers["etag"], host.body = '"2"', b"<rss>new</rss>"
    assert (await read(notes, host)).body == b"<rss>new</rss>"
    assert (await read(notes, host)).body == b"<rss>new</rss>" and host.seen[-1] == {"if-none-match": '"2"'}


async def test_scrapers_do_not_share_feeds(notes):
    host = Host(etag='"1"')
    await read(notes, host)
    await read(notes, host, scraper="other")
    assert host.seen == [{}, {}]


async def test_a_feed_without_validators_and_a_queue_that_is_away_cost_a_request_each(notes):
    host = Host()
    await read(notes, host)
    await read(notes, host)
    assert host.seen == [{}, {}] and not notes.kept
    notes.fails, tagged = True, Host(etag='"1"')
    assert (await read(notes, tagged)).status == 200
    assert (await read(notes, tagged)).status == 200 and tagged.seen == [{}, {}]


async def test_what_cannot_be_read_any_more_is_fetched(notes):
    host = Host(etag='"1"')
    await read(notes, host)
    notes.kept = dict.fromkeys(notes.kept, b"\x00of another version")
    assert (await read(notes, host)).status == 200 and host.seen == [{}, {}]
