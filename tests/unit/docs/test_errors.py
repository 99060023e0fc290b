"""The page on errors says of each class what the code does with it."""

import builtins
import re
from datetime import timedelta

import pytest

from shoal.core import errors
from shoal.core.model import MINUTE, SECOND, Bury, Task
from shoal.core.retry_policy import RetryPolicy, judge
from shoal.scrape.settings.scraper import ScraperSettings
from tests.unit.builders import make_lease
from tests.unit.docs.pages import DOCS, rows

TEXT = (DOCS / "explanation" / "errors-and-retries.md").read_text()
POLICY = RetryPolicy(max_attempts=3)
LEASE = make_lease(Task(url="https://a.test/"))


def classes(root=errors.ShoalError):
    for kind in root.__subclasses__():
        if kind.__module__.startswith(errors.__name__):
            yield kind
            yield from classes(kind)


def made(name, status):
    """Return an error of the class that a row names, with a status if it names some."""
    kind = getattr(errors, name, None) or getattr(builtins, name)
    if issubclass(kind, errors.HttpStatus):
        return kind(int(status))
    return kind.__new__(kind, "it is so")


def cases():
    for named, _, task, host in rows(TEXT, "| error | when | the task | its host |"):
        statuses = re.findall(r"\d{3}", named) or [""]
        for name in re.findall(r"`(\w+)`", named):
            for status in statuses:
                yield pytest.param(name, status, task, host, id=f"{name} {status}".strip())


@pytest.mark.parametrize(("name", "status", "task", "host"), list(cases()))
def test_the_verdict_is_what_the_page_says(name, status, task, host):
    verdict = judge(LEASE, made(name, status), POLICY, jitter=0.5, in_own_code=hasattr(builtins, name))
    assert isinstance(verdict, Bury) == (task == "is buried at once")
    assert ("paused" in host) == bool(verdict.pause_host)
    assert ("slowed" in host) == bool(verdict.slow_host)
    if "a minute later at least" in task:
        assert verdict.after >= MINUTE


def test_any_other_exception_is_tried_again_and_in_the_end_buried():
    assert not isinstance(judge(LEASE, ValueError(), POLICY, jitter=0.5), Bury)
    assert isinstance(judge(LEASE, ValueError(), RetryPolicy(max_attempts=1), jitter=0.5), Bury)


def test_every_kind_of_error_is_on_the_page():
    roots = {"FetchError", "NotNow"}
    missing = {kind.__name__ for kind in classes() if f"`{kind.__name__}`" not in TEXT} - roots
    assert missing == set()


def test_what_costs_no_attempt_is_what_says_not_now():
    listed = {name for row in rows(TEXT, "| error | because |") for name in re.findall(r"`(\w+)`", row[0])}
    assert listed == {kind.__name__ for kind in classes(errors.NotNow)}


def test_the_numbers_are_those_of_the_code():
    assert ScraperSettings().retries == 2 and "`retries=2`, the default, makes three attempts" in TEXT
    assert (POLICY.base, POLICY.cap) == (SECOND, timedelta(minutes=5))
    assert "1 s doubled *n* - 1 times, at most 5 minutes" in TEXT
    assert POLICY.backoff(3, 1.0) == 4 * SECOND
