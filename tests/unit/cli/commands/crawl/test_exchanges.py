"""The options of `shoal run` for caching and recording, and which exclude each other."""

import re
import sys

import pytest

from shoal.cli.commands.crawl.cache_options import check_settings, playback_seeds
from shoal.core.errors import InvalidSetting
from shoal.fleet.sources.seeds import Seeds
from shoal.registry.extras import install_command


def test_an_existing_recording_is_extended_only_by_a_resumed_run(tmp_path):
    file = tmp_path / "a.warc.gz"
    file.write_bytes(b"")
    with pytest.raises(InvalidSetting, match="already exists"):
        check_settings({"warc": str(file)}, resume=False)
    check_settings({"warc": str(file)}, resume=True)


@pytest.mark.parametrize("other", ["cache", "warc", "again"])
def test_a_playback_excludes_cache_recording_and_recrawl(other):
    with pytest.raises(InvalidSetting, match="no network requests"):
        check_settings({"playback": "a.warc.gz", other: "x"}, resume=False)


@pytest.mark.parametrize("option", ["warc", "playback"])
def test_a_missing_library_is_named(option, monkeypatch):
    for name in ("warcio", "warcio.archiveiterator", "warcio.warcwriter"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidSetting, match=re.escape(f"Run: {install_command('warc')}")):
        check_settings({option: "a.warc.gz"}, resume=False)


def test_a_playback_takes_no_source_from_the_network():
    with pytest.raises(InvalidSetting, match="--sitemap"):
        playback_seeds(Seeds(sitemaps=["https://shop.test/"]), "a.warc.gz")
    typed = Seeds(urls=["https://shop.test/"])
    assert playback_seeds(typed, "a.warc.gz") is typed
    assert playback_seeds(Seeds(), None) == Seeds()


def test_a_playback_of_nothing_says_how_to_record(tmp_path):
    with pytest.raises(InvalidSetting, match="Make one: shoal run … --warc"):
        playback_seeds(Seeds(), str(tmp_path / "a.warc.gz"))
