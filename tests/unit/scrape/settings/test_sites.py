"""Settings of sites: which of them apply to a URL, and what is refused."""

from datetime import timedelta

import pytest

from shoal import Scraper
from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.sites import SiteSettings
from shoal.worker.run_settings import storable
from shoal.worker.secrets import all_secrets

SITES = {
    "*": {"timeout": "40s", "headers": {"X-All": "1"}},
    "*.example.com": {"rate": "30/min", "headers": {"X-Site": "a"}},
    "shop.example.com": {"rate": "6/min", "fetch": "browser"},
    "127.0.0.1:8080": {"delay": "5s"},
}


def find(url, sites=None):
    return ScraperSettings.read(sites=SITES if sites is None else sites).sites.find(url)


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        ("https://example.com/", 2),
        ("https://www.example.com/a", 2),
        ("https://shop.example.com/a?b=1", 10),
        ("https://shop.example.com:8443/", 10),
        ("https://badexample.com/", None),
        ("https://example.com.evil.org/", None),
        ("http://127.0.0.1:8080/", 5),
        ("http://127.0.0.1:8081/", None),
        ("http://127.0.0.1/", None),
    ],
)
def test_the_most_specific_pattern_of_a_host_decides(url, seconds):
    delay = find(url).delay
    assert (delay and delay.total_seconds()) == seconds


def test_each_setting_comes_from_the_most_specific_pattern_that_has_it():
    found = find("https://shop.example.com/")
    assert found.headers == {"X-All": "1", "X-Site": "a"}
    assert (found.timeout, found.fetch) == (timedelta(seconds=40), "browser")


def test_without_sites_nothing_is_set():
    assert not ScraperSettings.read().sites
    assert ScraperSettings.read(sites=None).sites.find("https://example.com/") == SiteSettings()
    assert find(None) == SiteSettings()


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ("example.com", r"sites must be settings by host, such as"),
        (
            {"https://example.com/": {}},
            r"'https://example.com/' is not a pattern of hosts",
        ),
        ({"a*.example.com": {}}, r"is not a pattern of hosts"),
        ({"": {}}, r"is not a pattern of hosts"),
        ({"example.com": "2/s"}, r"sites.example.com must be settings"),
        ({"example.com": {"rate": "fast"}}, r"sites.example.com.rate must be a rate"),
        (
            {"example.com": {"header": {}}},
            r"header cannot be set for a site. Did you mean 'headers'",
        ),
        (
            {"example.com": {"tor": True}},
            r"Known: 'delay', 'fetch', 'headers', 'proxies', 'rate', 'timeout'",
        ),
        ({"example.com": {"per_host": 1}}, r"per_host cannot be set for a site: .* or the site a rate"),
        ({"example.com": {"proxies": ["127.0.0.1"]}}, r"proxies entry 1: has no valid port"),
        (
            {"example.com": {"proxies": {"from": ["http://127.0.0.1:1"], "per_exit": True}}},
            r"proxies.per_exit cannot be set for a site",
        ),
        ({"example.com": {"rate": "1/min", "delay": "1s"}}, r"leave one of them out"),
        (
            {"example.com": {"rate": "5/s"}},
            r"5/s is faster than the scraper's rate, 1/s. Give",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(sites, message):
    with pytest.raises(InvalidSetting, match=message):
        Scraper("books", sites=sites)


def test_a_site_may_be_as_fast_as_the_scraper_while_the_others_are_slower():
    settings = ScraperSettings.read(rate="5/s", sites={"*": {"rate": "1/s"}, "fast.example": {"rate": "5/s"}})
    assert settings.sites.find("https://fast.example/").delay == timedelta(seconds=0.2)
    assert settings.sites.find("https://other.example/").delay == timedelta(seconds=1)


def test_the_fetchers_of_sites_are_opened():
    shop = Scraper("shop", sites={"*.example.com": {"fetch": "browser"}})

    @shop.step
    def page(page):
        yield {}

    assert shop.fetchers == {"http", "browser"}


def test_a_site_has_proxies_of_its_own_or_none():
    own = ["http://user:s3cret@10.0.0.1:80"]
    settings = ScraperSettings.read(
        proxies=["http://10.0.0.2:80"],
        sites={"*.shop.example": {"proxies": own}, "a.example": {"proxies": "off"}},
    )
    assert settings.sites.find("https://www.shop.example/").proxies.listed == tuple(own)
    assert settings.sites.find("https://a.example/").proxies is False
    assert settings.sites.find("https://b.example/").proxies is None
    assert "s3cret" in all_secrets("sqlite:///q.db", settings, {})
    assert storable({"sites": {"*.shop.example": {"proxies": own}}}) == ({}, ["sites"])
    with pytest.raises(InvalidSetting, match="tor and proxies cannot be combined"):
        ScraperSettings.read(tor=True, sites={"a.example": {"proxies": own}})
    with pytest.raises(InvalidSetting, match="'aiohttp' does not support proxies"):
        ScraperSettings.read(engine="aiohttp", sites={"a.example": {"proxies": own}})
