"""The cache and the recording around each engine, with a real host behind them."""

import gzip
from datetime import timedelta

import pytest

from shoal.core.errors import NotRecorded
from shoal.core.http import Request
from shoal.export.archive.warc import WarcWriter
from shoal.export.archive.warc_read import WarcArchive
from shoal.fetch.archive import PlaybackFetcher, RecordingFetcher
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.store import DiskStore
from tests.integration.fetch.conftest import USER_AGENT
from tests.integration.fetch.hostile import page, redirect

MOST = 1 << 20


@pytest.fixture
def asked_about(fetcher, tmp_path):
    """A cache in which everything is stale at once."""
    store = DiskStore(tmp_path / "cache", max_bytes=MOST)
    return CachingFetcher(fetcher, store, user_agent=USER_AGENT, lifetime=timedelta(microseconds=1))


async def test_a_page_out_of_date_costs_a_304(asked_about, origin):
    url = origin.on("/", page(b"page", 'ETag: "1"'))
    assert (await asked_about.fetch(Request(url=url))).body == b"page"
    origin.on("/", page(b"", 'ETag: "1"', status="304 Not Modified"))
    again = await asked_about.fetch(Request(url=url))
    assert (again.status, again.body) == (200, b"page")
    assert origin.asked[-1].headers["if-none-match"] == '"1"'


async def test_a_compressed_page_is_kept_and_recorded_as_it_reads(fetcher, origin, tmp_path):
    url = origin.on(
        "/", page(gzip.compress(b"long " * 500), "Content-Encoding: gzip", "Content-Type: text/html")
    )
    writer = WarcWriter.open(tmp_path / "a.warc.gz", user_agent=USER_AGENT)
    recording = RecordingFetcher(fetcher, writer)
    fetched = await recording.fetch(Request(url=url))
    await recording.close()
    played = WarcArchive(tmp_path / "a.warc.gz", max_body=MOST).find(url)
    assert played.body == fetched.body == b"long " * 500
    assert played.headers["content-type"] == "text/html"


async def test_a_record_is_played_back_with_its_redirects_and_nothing_is_asked(fetcher, origin, tmp_path):
    origin.on("/old", redirect("/new", status="302 Found"))
    origin.on("/new", page(b"here"))
    writer = WarcWriter.open(tmp_path / "a.warc.gz", user_agent=USER_AGENT)
    fetched = await RecordingFetcher(fetcher, writer).fetch(Request(url=origin.url("/old")))
    await writer.close()
    count = len(origin.asked)
    record = WarcArchive(tmp_path / "a.warc.gz", max_body=MOST)
    playback = PlaybackFetcher(record.find, record=record.name)
    played = await playback.fetch(Request(url=origin.url("/old")))
    assert (played.url, played.body, played.redirects) == (fetched.url, b"here", fetched.redirects)
    with pytest.raises(NotRecorded):
        await playback.fetch(Request(url=origin.url("/other")))
    assert len(origin.asked) == count
