from datetime import timedelta

import pytest

from shoal.core.errors import HttpStatus, InvalidSetting
from shoal.core.model import MINUTE, SECOND
from shoal.core.retry_policy import RetryRule
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.retry import NO_RETRY_SETTINGS, read_retry


class ShopClosed(Exception):
    """An error of the scraper's own."""


def shop(**settings):
    scraper = Scraper("shop", **settings)

    @scraper.step
    def listing(page):
        return None

    return scraper


def test_the_waits_of_every_retry_are_read_as_people_write_them():
    given = {"delay": "60s", "factor": 1.5, "cap": "10m", "jitter": False}
    rule = RetryRule(delay=MINUTE, factor=1.5, cap=10 * MINUTE, jitter=0.0)
    assert read_retry("retry", given).general == rule
    assert read_retry("retry", {"jitter": 0.2}).general.jitter == 0.2
    assert read_retry("retry", None) is NO_RETRY_SETTINGS


def test_a_class_is_named_by_its_name_or_given_as_it_is():
    retry = read_retry("retry", {"HttpStatus": {"attempts": 5}, ShopClosed: {"delay": "1h"}})
    assert retry.rules == {
        "HttpStatus": RetryRule(attempts=5),
        "ShopClosed": RetryRule(delay=timedelta(hours=1)),
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("60s", "retry must be a table"),
        ({"delay": 0}, "retry.delay must be more than zero"),
        ({"delai": "60s"}, "retry.delai is not known. Did you mean 'delay'?"),
        ({"attempts": 4}, "retry.attempts is for one error class; for all errors, set retries"),
        ({"factor": 0.5}, "retry.factor must be a number from 1 to 100"),
        ({"factor": "much"}, "retry.factor must be a number"),
        ({"jitter": 2}, "retry.jitter must be True, False"),
        ({"delay": "5m", "cap": "1m"}, "retry.cap must be at least as long as the delay"),
        ({"HttpStatus": {"retries": 5}}, "retry.HttpStatus.retries is not known"),
        ({"HttpStatus": {"attempts": 0}}, "retry.HttpStatus.attempts must be a whole number from 1 to 101"),
        ({"HttpStatus": 5}, 'retry.HttpStatus must be a table; write {"attempts": 5}, got 5'),
        ({"5xx": 5}, 'retry.5xx must be a table; write {"attempts": 5}, got 5'),
        ({"timeout": 5}, 'retry.timeout must be a table; write {"attempts": 5}, got 5'),
        ({int: {"attempts": 5}}, "retry must name error classes"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_key(given, words):
    with pytest.raises(InvalidSetting) as refused:
        read_retry("retry", given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HttpStatsu", "Did you mean 'HttpStatus'?"),
        ("ShopClosde", "Did you mean 'ShopClosed'?"),
        ("Qqqqqqqqqq", "Import it at the top"),
        ("ParseFailed", "never retried"),
        ("InvalidItem", "never retried"),
        ("TorDown", "uses no attempt"),
    ],
)
def test_a_class_that_is_none_or_is_never_retried_is_refused_when_the_scraper_is_made_ready(name, words):
    with pytest.raises(InvalidSetting) as refused:
        shop().replace(retry={name: {"attempts": 5}})
    assert refused.value.key == f"retry.{name}"
    assert words in refused.value.reason


def test_classes_of_shoal_of_python_and_of_the_scraper_are_known():
    names = ("HttpStatus", "ValueError", "ShopClosed")
    shop(retry={name: {"attempts": 5} for name in names}).replace()


def test_the_queue_gets_the_most_attempts_that_any_class_has():
    scraper = shop(retries=3, retry={"HttpStatus": {"attempts": 9}, "FetchTimeout": {"attempts": 1}})
    assert scraper.run_settings().max_attempts == 9
    assert scraper.max_attempts(scraper.first) == 4


def test_a_step_keeps_its_own_retries_and_takes_the_rules_of_the_scraper():
    scraper = Scraper("shop", retry={"delay": "60s", "HttpStatus": {"attempts": 9}})

    @scraper.step(retries=0)
    def listing(page):
        return None

    policy = scraper.retry_policy(scraper.steps["listing"])
    assert (policy.max_attempts, policy.base) == (1, MINUTE)
    assert policy.under(policy.rule_for(HttpStatus(500))).max_attempts == 9


def test_a_longer_delay_raises_the_default_cap():
    policy = shop(retry={"delay": "20m", "jitter": False}).settings.retry.policy(3)
    assert policy.backoff(1, 0.5) == policy.backoff(2, 0.5) == 1200 * SECOND


def test_statuses_and_usual_words_name_rules():
    retry = read_retry("retry", {"5xx": {"attempts": 5}, 429: {"delay": "1m"}, "timeout": {"attempts": 2}})
    assert retry.rules == {
        "5xx": RetryRule(attempts=5),
        "429": RetryRule(delay=MINUTE),
        "FetchTimeout": RetryRule(attempts=2),
    }
    retry.check_classes()
    for name in ("200", "3xx", "42", "5x"):
        with pytest.raises(InvalidSetting, match=rf"retry\.{name} is no error status; write one such as 429"):
            read_retry("retry", {name: {"attempts": 5}})


def test_a_key_of_another_tool_is_answered_with_ours():
    with pytest.raises(InvalidSetting, match=r"retry\.timeout\.first is not known\. Write 'delay'\."):
        read_retry("retry", {"timeout": {"first": "1s"}})
    with pytest.raises(InvalidSetting, match=r"retry\.max is not known\. Write 'cap'\."):
        read_retry("retry", {"max": "10m"})
    with pytest.raises(InvalidSetting, match="is never retried"):
        shop(retry={"SkipTask": {"attempts": 2}}).settings.retry.check_classes()
