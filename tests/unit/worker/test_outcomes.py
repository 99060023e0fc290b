from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shoal import Page, Scraper
from shoal.core.errors import Blocked, HttpStatus, NotNow, PrivateAddress, RobotsDenied
from shoal.core.http import Response
from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Retry, Task
from shoal.worker.counters import TaskCounts, WorkerCounters
from shoal.worker.left_out import ROBOTS
from shoal.worker.outcomes import OutcomeJudge, RepeatedFailures
from tests.unit.builders import make_lease, make_run


class Bench:
    """A judge, and what it counts."""

    def __init__(self, robots=None, redact=lambda text: text, **settings):
        self.scraper = Scraper("shop", **settings)

        @self.scraper.step
        async def page(page: Page):
            yield {}

        self.run = run = make_run(settings=self.scraper.run_settings())
        self.tally = WorkerCounters()
        self.judge = OutcomeJudge(
            self.scraper,
            run,
            self.tally,
            robots=robots,
            redact=redact,
        )


def lease(*, task_id="t", attempt=1, depth=0, slowdown=ZERO, url="https://a.test/x"):
    return make_lease(
        Task(url=url, step="page", depth=depth), task_id=task_id, attempt=attempt, host_slowdown=slowdown
    )


def test_an_error_is_retried_until_the_attempts_are_used_and_counted():
    bench = Bench(retries=1)
    assert isinstance(bench.judge.judge_error(lease(), ValueError("x")), Retry)
    assert isinstance(bench.judge.judge_error(lease(attempt=2), ValueError("x")), Bury)


def test_the_error_is_text_on_one_line_without_secrets():
    bench = Bench(redact=lambda text: text.replace("s3cret", "***"))
    outcome = bench.judge.judge_error(lease(), ValueError("line one\nwith s3cret"))
    assert outcome.error.startswith("ValueError: line one with ***")


def test_a_played_back_page_is_not_retried(monkeypatch):
    bench = Bench(retries=3)
    monkeypatch.setattr(bench.scraper, "settings", replace(bench.scraper.settings, playback=Path("pages")))
    bench.judge.read_settings(bench.run)
    assert isinstance(bench.judge.judge_error(lease(), ValueError("x")), Bury)


def test_two_complaints_of_one_moment_slow_the_host_once():
    bench = Bench(delay=1)
    first, second = (bench.judge.judge_error(lease(), Blocked(429)) for _ in range(2))
    assert first.slow_host and second.slow_host == first.slow_host


@pytest.mark.parametrize(("depth", "is_left_out"), [(0, False), (1, True)])
def test_only_followed_links_to_missing_pages_are_counted_instead_of_buried(depth, is_left_out):
    bench = Bench()
    error = HttpStatus(404)
    assert (
        bench.judge.count_if_left_out(lease(depth=depth).task, error, counts := TaskCounts()) is is_left_out
    )
    assert counts.missing.count == int(is_left_out)


def test_a_followed_link_that_robots_txt_forbids_is_counted_with_an_example():
    bench = Bench()
    counts = TaskCounts()
    assert bench.judge.count_if_left_out(lease(depth=2).task, RobotsDenied("https://a.test/x"), counts)
    assert counts.dropped == {ROBOTS: 1}
    assert bench.scraper.first.link_filter.examples[ROBOTS] == "https://a.test/x"
    assert not bench.judge.count_if_left_out(lease(depth=2).task, ValueError(), counts)


def test_the_error_of_a_page_at_a_private_host_has_a_class_of_its_own():
    outcome = Bench().judge.judge_error(lease(), PrivateAddress("a.test", "private"))
    assert outcome.error.startswith("PrivateAddress: a.test is private"), (
        "a list of failures tells it from a page out of scope"
    )


def test_a_task_that_cannot_be_tried_now_comes_back_later_and_is_counted():
    bench = Bench()
    outcome = bench.judge.postpone(lease(), NotNow("no proxy", 5 * SECOND))
    assert outcome.after == 5 * SECOND and bench.tally.postponed == {"NotNow": 1}


class Rules:
    def crawl_delay(self, url):
        return 10 * SECOND


def test_a_success_eases_a_slowed_host_down_to_its_crawl_delay():
    assert Bench().judge.ease_host(lease()) is None, "it was not slowed"
    eased = Bench(delay=1).judge.ease_host(lease(slowdown=MINUTE))
    assert timedelta(0) < eased < MINUTE
    assert Bench(robots=Rules(), delay=1).judge.ease_host(lease()) == 10 * SECOND


def test_a_start_that_was_planned_without_the_crawl_delay_is_planned_again():
    judge = Bench(robots=Rules(), delay=1).judge
    assert judge.new_crawl_delay(lease()) == 10 * SECOND
    assert judge.new_crawl_delay(lease(slowdown=10 * SECOND)) is None
    assert Bench(robots=Rules(), delay=20).judge.new_crawl_delay(lease()) is None
    assert Bench(delay=1).judge.new_crawl_delay(lease()) is None


def page(body):
    return Response(url="https://example.com/", status=200, body=body)


def test_only_the_same_failure_on_the_same_page_is_repeated():
    failures = RepeatedFailures()
    seen = [
        failures.is_repeated(lease(), "KeyError (a.py:1)", page(b"one")),
        failures.is_repeated(lease(task_id="other"), "KeyError (a.py:1)", page(b"one")),
        failures.is_repeated(lease(), "KeyError (a.py:1)", page(b"two")),
        failures.is_repeated(lease(), "KeyError (a.py:2)", page(b"two")),
        failures.is_repeated(lease(), "KeyError (a.py:2)", None),
        failures.is_repeated(lease(), "KeyError (a.py:2)", page(b"two")),
    ]
    assert seen == [False, False, False, False, False, True]
