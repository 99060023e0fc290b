"""Which fetchers a scraper's settings give; a playback has no network access."""

import pytest

from shoal.core.errors import NotRecorded
from shoal.core.http import Request, Response
from shoal.export.archive.warc import WarcWriter
from shoal.fetch.archive.playback import PlaybackFetcher
from shoal.fetch.archive.recording import RecordingFetcher
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http.aiohttp import AioHttpFetcher
from shoal.fetch.http.wreq import WreqFetcher
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers import chain

URL = "https://shop.test/"


async def open_http(**settings):
    read = ScraperSettings.read(**settings)
    return (await chain.open_fetchers(read, None, user_agent="shoal", run_id="r"))["http"]


@pytest.fixture
def egresses(monkeypatch):
    """Record every egress that is created, and every URL that passes through one."""
    counted = []

    class Counted(Egress):
        def __init__(self, *args, **more):
            counted.append("created")
            super().__init__(*args, **more)

        async def admit(self, url):
            counted.append(url)
            raise ConnectionRefusedError(url)

    monkeypatch.setattr(chain, "Egress", Counted)
    return counted


@pytest.fixture
async def recording(tmp_path):
    writer = WarcWriter.open(tmp_path / "a.warc.gz", user_agent="shoal")
    await writer.write(Request(url=URL), Response(url=URL, status=200, body=b"page"))
    await writer.close()
    return str(tmp_path / "a.warc.gz")


async def test_a_playback_has_no_egress_at_all(egresses, recording):
    fetcher = await open_http(playback=recording)
    assert isinstance(fetcher, PlaybackFetcher)
    assert (await fetcher.fetch(Request(url=URL))).body == b"page"
    with pytest.raises(NotRecorded):
        await fetcher.fetch(Request(url=f"{URL}other"))
    assert egresses == []


async def test_every_other_fetcher_uses_the_egress(egresses, tmp_path):
    for settings in ({}, {"cache": f"disk:{tmp_path}/pages"}, {"warc": str(tmp_path / "b.warc.gz")}):
        egresses.clear()
        fetcher = await open_http(**settings)
        with pytest.raises(ConnectionRefusedError):
            await fetcher.fetch(Request(url=URL))
        assert egresses == ["created", URL]
        await fetcher.close()


@pytest.mark.parametrize(("engine", "kind"), [("wreq", WreqFetcher), ("aiohttp", AioHttpFetcher)])
async def test_the_setting_engine_chooses_the_http_client(engine, kind):
    fetcher = await open_http(engine=engine)
    assert type(fetcher) is kind
    await fetcher.close()


async def test_settings_are_layers_around_the_fetcher(tmp_path):
    kinds = {
        WreqFetcher: {},
        CachingFetcher: {"cache": f"disk:{tmp_path}/pages"},
        RecordingFetcher: {"warc": str(tmp_path / "c.warc.gz")},
    }
    for kind, settings in kinds.items():
        fetcher = await open_http(**settings)
        assert type(fetcher) is kind
        await fetcher.close()
