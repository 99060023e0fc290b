"""Which fetcher a scraper's settings ask for; a replay has no way to the network."""

import pytest

from shoal.core.errors import NotRecorded
from shoal.core.exchange import Request, Response
from shoal.export.warc import WarcWriter
from shoal.fetch.cache import CachingFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.recording import RecordingFetcher
from shoal.fetch.replay import ReplayFetcher
from shoal.scrape.settings import ScraperSettings
from shoal.worker import fetching

URL = "https://shop.test/"


async def opened(**settings):
    read = ScraperSettings.read(**settings)
    return (await fetching.open_fetchers(read, None, user_agent="shoal", run_id="r"))["http"]


@pytest.fixture
def doors(monkeypatch):
    """Count every door to the network that is made, and every URL that passes one."""
    counted = []

    class Counted(Egress):
        def __init__(self, *args, **more):
            counted.append("made")
            super().__init__(*args, **more)

        async def admit(self, url):
            counted.append(url)
            raise ConnectionRefusedError(url)

    monkeypatch.setattr(fetching, "Egress", Counted)
    return counted


@pytest.fixture
async def recording(tmp_path):
    writer = WarcWriter.open(tmp_path / "a.warc.gz", user_agent="shoal")
    await writer.write(Request(url=URL), Response(url=URL, status=200, body=b"page"))
    await writer.close()
    return str(tmp_path / "a.warc.gz")


async def test_a_replay_has_no_door_at_all(doors, recording):
    fetcher = await opened(replay=recording)
    assert isinstance(fetcher, ReplayFetcher)
    assert (await fetcher.fetch(Request(url=URL))).body == b"page"
    with pytest.raises(NotRecorded):
        await fetcher.fetch(Request(url=f"{URL}other"))
    assert doors == []


async def test_every_other_fetcher_goes_through_the_door(doors, tmp_path):
    for settings in ({}, {"cache": f"disk:{tmp_path}/pages"}, {"warc": str(tmp_path / "b.warc.gz")}):
        doors.clear()
        fetcher = await opened(**settings)
        with pytest.raises(ConnectionRefusedError):
            await fetcher.fetch(Request(url=URL))
        assert doors == ["made", URL]
        await fetcher.close()


async def test_settings_are_layers_around_the_fetcher(tmp_path):
    kinds = {
        HttpFetcher: {},
        CachingFetcher: {"cache": f"disk:{tmp_path}/pages"},
        RecordingFetcher: {"warc": str(tmp_path / "c.warc.gz")},
    }
    for kind, settings in kinds.items():
        fetcher = await opened(**settings)
        assert type(fetcher) is kind
        await fetcher.close()
