"""The settings `cache`, `warc` and `playback`, as users write them."""

from datetime import timedelta
from pathlib import Path

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.storage import CACHE_SIZE, CacheSettings

TEN_MINUTES = timedelta(minutes=10)


def read(**given):
    return ScraperSettings.read(**given)


@pytest.mark.parametrize("value", [None, False, "off", "OFF", "none"])
def test_a_cache_may_be_off(value):
    assert read(cache=value).cache is None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, CacheSettings()),
        ("on", CacheSettings(lifetime=timedelta(seconds=60), folder=None, size=CACHE_SIZE)),
        ("10m", CacheSettings(lifetime=TEN_MINUTES)),
        (600, CacheSettings(lifetime=TEN_MINUTES)),
        (TEN_MINUTES, CacheSettings(lifetime=TEN_MINUTES)),
        ("disk:pages", CacheSettings(folder=Path("pages"))),
        ("10m disk:pages 2GB", CacheSettings(lifetime=TEN_MINUTES, folder=Path("pages"), size=2 << 30)),
        ("queue 10MB", CacheSettings(size=10 << 20)),
        (
            {"lifetime": "10m", "place": "disk:a b", "size": "1 MB"},
            CacheSettings(lifetime=TEN_MINUTES, folder=Path("a b"), size=1 << 20),
        ),
    ],
)
def test_a_cache_is_read(value, wanted):
    assert read(cache=value).cache == wanted
    assert read(cache=wanted).cache == wanted


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("soon", "duration"),
        ("0s", "more than zero"),
        (-1, "duration"),
        ("10m 20m", "must look like '60s'"),
        ("disk:", "such as 'disk:pages'"),
        ({"place": "s3:bucket"}, "such as 'disk:pages'"),
        ({"lifetme": "10m"}, "Did you mean 'lifetime'"),
        ([1], "duration"),
    ],
)
def test_a_wrong_cache_is_explained(value, says):
    with pytest.raises(InvalidSetting, match=says) as caught:
        read(cache=value)
    assert caught.value.key.split(".")[0] == "cache"


def test_a_recording_has_a_name_and_a_folder(tmp_path):
    assert read(warc=str(tmp_path / "a.warc.gz")).warc == tmp_path / "a.warc.gz"
    for wrong in ("a.jsonl", ".warc.gz", 7, ""):
        with pytest.raises(InvalidSetting, match="must be"):
            read(warc=wrong)
    with pytest.raises(InvalidSetting, match="mkdir -p"):
        read(warc=str(tmp_path / "no" / "a.warc.gz"))


def test_a_recording_leaves_out_the_cache_that_the_scraper_has_and_refuses_one_that_is_asked_for(tmp_path):
    file = str(tmp_path / "a.warc.gz")
    assert read(cache="10m").replace(warc=file).cache is None
    with pytest.raises(InvalidSetting, match="cannot be combined"):
        read(cache="10m", warc=file)


def test_a_playback_spares_no_host_and_tries_nothing_twice(tmp_path):
    settings = read(rate="1/s", retries=3, pause="8-20s", cache="10m").replace(playback=str(tmp_path))
    assert (settings.delay, settings.retries, settings.pause, settings.cache) == (timedelta(0), 0, None, None)
    with pytest.raises(InvalidSetting, match="Make one: shoal run … --warc"):
        read(playback=str(tmp_path / "nothing"))
