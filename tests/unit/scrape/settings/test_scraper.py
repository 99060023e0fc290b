"""The settings of a scraper: read as users write them; errors say what to write instead."""

import re
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, SECOND, ZERO, RunSettings
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings

read = ScraperSettings.read


def test_the_defaults_are_the_safe_ones_of_the_design():
    settings = read()
    assert settings.delay == SECOND
    assert settings.timeout == MINUTE
    assert settings.robots is True
    assert str(settings.scope) == "'host'"
    assert settings.max_depth == 20
    assert settings.max_body == 32 << 20
    assert settings.run_settings() == RunSettings(host_delay=timedelta(seconds=1.002))


def test_every_setting_can_be_read_and_every_reader_has_a_setting():
    facts = {"mode_given"}  # describes a setting, but is not one
    assert {field.name for field in fields(ScraperSettings)} - facts == SETTINGS.keys() - {"rate"}


def test_settings_are_read_as_people_write_them():
    settings = read(
        mode="distributed",
        rate="30/min",
        per_host=2,
        retries="5",
        timeout="90s",
        lease="10m",
        ttl="1d",
        robots="off",
        scope="site",
        max_depth=3,
        max_pages=1000,
        max_per_pattern=500,
        fetch="http",
        headers={"Accept-Language": "en"},
        user_agent=" bot/1 ",
        delivery="at_least_once",
        pause="8-20s",
        statuses=[404, "410"],
        block="captcha",
        max_body="1 MB",
        allow_private=["localhost:8000", "10.0.0.0/8"],
    )
    assert settings.delay == 2 * SECOND
    assert settings.ttl == timedelta(days=1)
    assert settings.robots is False
    assert settings.pause == (8 * SECOND, 20 * SECOND)
    assert settings.statuses == {404, 410}
    assert settings.block.search("Please solve the CAPTCHA")
    assert settings.user_agent == "bot/1"
    assert settings.run_settings() == RunSettings(
        host_delay=timedelta(seconds=2.002), per_host=2, max_attempts=6, ttl=timedelta(days=1)
    )


@pytest.mark.parametrize(("rate", "planned"), [("10/s", 0.102), ("1/s", 1.002), ("1/h", 3600.002), (None, 0)])
def test_starts_are_planned_a_little_further_apart_than_they_may_be(rate, planned):
    assert read(rate=rate).run_settings().host_delay == timedelta(seconds=planned)


def test_retries_are_what_follows_the_first_attempt():
    assert read(retries=0).run_settings().max_attempts == 1
    assert read().run_settings().max_attempts == 3
    assert read(retries=3).run_settings().max_attempts == 4


def test_at_most_once_means_one_attempt_and_no_word_about_retries():
    assert read(delivery="at_most_once").run_settings(retries=7).max_attempts == 1
    with pytest.raises(InvalidSetting, match="retries cannot be more than 0 with delivery='at_most_once'"):
        read(delivery="at_most_once", retries=3)


def test_without_a_gap_more_requests_may_run_at_once():
    assert read(rate="1/s").run_settings().per_host == 4
    assert read(rate=None).run_settings().per_host == 16
    assert read(rate=None).delay == read(delay=0).delay == read(delay=None).delay == ZERO
    assert read(rate=None, per_host=1).run_settings().per_host == 1


def test_rate_and_delay_exclude_each_other_but_one_may_replace_the_other():
    with pytest.raises(InvalidSetting, match="rate and delay say the same thing"):
        read(rate="1/s", delay="1s")
    assert read(rate="1/s").replace(delay="3s").delay == 3 * SECOND
    assert read(delay="3s").replace(rate="2/s").delay == SECOND / 2


def test_a_mistyped_setting_is_answered_with_the_nearest_one():
    with pytest.raises(
        InvalidSetting, match=r"raet is not a setting of a scraper. Did you mean 'rate'"
    ) as caught:
        read(raet="5/s")
    assert caught.value.key == "raet"
    with pytest.raises(InvalidSetting, match=r"Known are again, allow_private, block, .*tor"):
        read(zzz=1)


def test_a_change_is_checked_like_the_first_word_and_names_its_key():
    with pytest.raises(InvalidSetting, match=r"^timeout must be") as caught:
        read().replace(timeout="soon")
    assert caught.value.key == "timeout"
    with pytest.raises(InvalidSetting, match="Did you mean 'timeout'"):
        read().replace(timeuot=5)


def test_a_change_leaves_the_rest_as_it_was():
    assert read(rate="5/s", retries=1).replace(retries=4) == read(rate="5/s", retries=4)


def test_pages_come_by_http_by_a_browser_by_whichever_is_needed_or_not_at_all():
    assert [read(fetch=name).fetch for name in ("http", "browser", "auto")] == ["http", "browser", "auto"]
    assert read(fetch=None).fetch is None


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("mode", "both", "must be 'single' or 'distributed'"),
        ("per_host", 0, "must be a whole number from 1"),
        ("retries", -1, "must be a whole number from 0 to 100"),
        ("timeout", 0, "must be more than zero"),
        ("ttl", "-1s", "must be a duration"),
        ("robots", "maybe", "must be True or False"),
        ("scope", "hots", "must be 'host', 'site', 'any' or a pattern"),
        ("scope", [], "must not be empty"),
        ("scope", "re:(", "is not a regular expression"),
        ("max_depth", -1, "must be a whole number from 0"),
        ("max_pages", 0, "must be a whole number from 1"),
        ("fetch", "carrier pigeon", "must be 'http'"),
        ("engine", "aiohtp", "must be 'wreq' or 'aiohttp'"),
        ("headers", "Accept: en", "must be names and values"),
        ("headers", {"Bad Name": "x"}, "has an invalid header name"),
        ("headers", {"X": "a\r\nY: b"}, "must be one line of text for X"),
        ("user_agent", "a\nb", "must be one line of text"),
        ("delivery", "exactly_once", "must be 'at_least_once' or 'at_most_once'"),
        ("statuses", 99, "must be a whole number from 100 to 599"),
        ("block", "(", "is not a regular expression"),
        ("block", 5, "must be a regular expression"),
        ("block", r"(a+)+$", "repeats a group that itself repeats"),
        ("block", re.compile(r"(?:a|aa)+$"), "repeats a group that itself repeats or has alternatives"),
        ("block", ".*captcha.*", "could take hours on a page"),
        ("allow_private", "http://localhost:8000/", "write 'localhost:8000'"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_write(key, value, words):
    with pytest.raises(InvalidSetting, match=re.escape(words)) as caught:
        read(**{key: value})
    assert caught.value.key == key
    assert str(caught.value).startswith(key)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"proxies": ["http://proxy.test:1"]}, "proxies"),
        ({"tor": True}, "tor"),
        ({"sessions": "10 profile=chrome"}, "sessions.profile"),
    ],
)
def test_the_second_engine_is_refused_where_a_setting_needs_the_first(given, name):
    with pytest.raises(InvalidSetting, match=rf"engine 'aiohttp' does not support {name}; use engine='wreq'"):
        read(engine="aiohttp", **given)
    assert read(engine="aiohttp", sessions=10).engine == "aiohttp"


def test_a_header_that_is_refused_does_not_show_its_value():
    with pytest.raises(InvalidSetting) as caught:
        read(headers={"Authorization": "secret\n"})
    assert "secret" not in str(caught.value)


def test_settings_cannot_be_changed_behind_their_back():
    headers = {"A": "1"}
    settings = read(headers=headers)
    headers["B"] = "2"
    assert dict(settings.headers) == {"A": "1"}
    with pytest.raises(FrozenInstanceError):
        settings.retries = 5


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("2d", timedelta(days=2)), ("on", timedelta(days=7)), ("off", None), (None, None), (False, None)],
)
def test_failed_pages_are_kept_for_a_while_or_not_at_all(given, wanted):
    assert ScraperSettings.read(failed_pages=given).failed_pages == wanted
    assert ScraperSettings.read().failed_pages == timedelta(days=7)


def test_failed_pages_must_be_a_duration():
    with pytest.raises(InvalidSetting, match="failed_pages"):
        ScraperSettings.read(failed_pages="long")
