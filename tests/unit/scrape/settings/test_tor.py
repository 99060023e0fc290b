"""The setting `tor`, as users write it."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.proxies import TorSettings
from shoal.scrape.settings.scraper import ScraperSettings


@pytest.fixture
def torrc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bridges.torrc").write_text("UseBridges 1\n")
    return tmp_path / "bridges.torrc"


@pytest.mark.parametrize(
    "given",
    [
        "renew=50 torrc=bridges.torrc",
        {"renew": 50, "torrc": "bridges.torrc"},
        {"renew": "50", "torrc": "bridges.torrc"},
    ],
)
def test_rules(given, torrc):
    assert ScraperSettings.read(tor=given).tor == TorSettings(renew=50, torrc=torrc)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("sometimes", r"tor must look like True, or 'renew=50'"),
        (50, r"tor must look like True"),
        ("", r"tor must look like True"),
        ({"renw": 5}, r"tor has no 'renw'\. Did you mean 'renew'\?"),
        ("renew=0", r"tor\.renew must be a whole number from 1"),
        ("renew=often", r"tor\.renew must be a whole number"),
        ("torrc=missing.torrc", r"tor\.torrc must be a Tor configuration file, got 'missing\.torrc'"),
        ({"torrc": 5}, r"tor\.torrc must be a Tor configuration file"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_what_to_write(given, reason):
    with pytest.raises(InvalidSetting, match=reason):
        ScraperSettings.read(tor=given)


def test_tor_and_proxies_do_not_go_together():
    with pytest.raises(InvalidSetting, match="tor and proxies cannot be combined"):
        ScraperSettings.read(tor=True, proxies=["http://127.0.0.1:1"])
    settings = ScraperSettings.read(proxies=["http://127.0.0.1:1"])
    assert settings.replace(tor=True, proxies="off").tor
