"""The setting `proxies`, in every accepted form."""

from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.proxies import ProxyRules
from shoal.scrape.settings.proxies import read_proxies
from shoal.scrape.settings.scraper import ScraperSettings


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "proxies.txt"
    path.write_text("p.test:80\nme:s3cret@p.test:81\n")
    return path


def read(value):
    return read_proxies("proxies", value)


def test_a_file_is_named_as_text_as_a_path_or_with_rules(file):
    assert read(str(file)) == read(file) == read({"from": file}) == ProxyRules(file=file)
    spelled = read(f"{file} strategy=least-used threshold=5 duration=30m direct=yes share=slice rotate=task")
    assert spelled == read(
        {
            "from": str(file),
            "strategy": "least_used",
            "threshold": 5,
            "duration": timedelta(minutes=30),
            "direct": True,
            "share": "slice",
            "rotate": "task",
        }
    )
    assert (spelled.threshold, spelled.direct, spelled.strategy) == (5, True, "least_used")


def test_the_defaults_are_those_that_were_asked_for(file):
    rules = read(file)
    assert (rules.threshold, rules.duration, rules.strategy) == (10, timedelta(minutes=60), "round_robin")
    assert not rules.direct


def test_addresses_and_functions_are_taken():
    assert read("socks5://p.test:1080").listed == ("socks5://p.test:1080",)
    assert read(["p.test:80", "p.test:81"]).listed == ("p.test:80", "p.test:81")
    provider = lambda: ["p.test:80"]  # noqa: E731
    assert read(provider).provider is provider
    assert read({"from": provider, "refresh": "1m"}).refresh == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nowhere.txt", "cannot be read from nowhere.txt"),
        ("p.test:80:me:s3cret", "a proxy URL needs a scheme"),
        ("me:s3cret@p.test:80", "a proxy URL needs a scheme"),
        ("http://me:s3cret@p.test", "entry 1: has no valid port"),
        ("http://p.test:80 s3cret", "strategy=fastest"),
        ("http://p.test:80 strategy=quickest", "proxies.strategy must be 'round_robin' or"),
        ("http://p.test:80 thresholt=5", "has no 'thresholt'. Did you mean 'threshold'?"),
        ("http://p.test:80 threshold=0", "proxies.threshold must be a whole number"),
        ({"strategy": "random"}, "needs 'from'"),
        (["p.test:80", "me:s3cret@p.test"], "entry 2: has no valid port"),
        ([1, 2], "must be a file, a list of addresses, or a function"),
        (7, "must be a file, a list of addresses, or a function"),
        ("", "must look like a file and rules"),
    ],
)
def test_what_cannot_be_used_is_said_without_a_secret(value, said):
    with pytest.raises(InvalidSetting) as caught:
        read(value)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_settings_do_not_show_credentials():
    settings = ScraperSettings.read(proxies=["me:s3cret@p.test:80"])
    assert "s3cret" not in repr(settings)
    assert settings.replace(proxies="off").proxies is None
