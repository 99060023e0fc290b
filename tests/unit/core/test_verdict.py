"""What becomes of a task whose handling failed."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import (
    Blocked,
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    FetchTimeout,
    HttpStatus,
    InvalidItem,
    InvalidUrl,
    OutOfScope,
    ParseFailed,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
)
from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Lease, Retry, Task
from shoal.core.pacing import LONGEST_PAUSE, SHORTEST_SLOWDOWN
from shoal.core.verdict import DNS_WAIT, ROBOTS_WAIT, RetryPolicy, judge

POLICY = RetryPolicy(max_attempts=4)
HALF = 0.5
JITTERS = st.floats(0, 1, exclude_max=True)


def lease(attempt=1):
    return Lease(
        run_id="r", task_id="t", token=1, task=Task(), attempt=attempt, start_in=ZERO, deadline_in=MINUTE
    )


def verdict(error, attempt=1, jitter=HALF, **more):
    return judge(lease(attempt), error, POLICY, jitter=jitter, **more)


@pytest.mark.parametrize(
    "error",
    [
        RobotsDenied(),
        OutOfScope(),
        TooLarge(),
        ParseFailed(),
        InvalidUrl("x", "it has no scheme"),
        InvalidItem({}, "it is not JSON"),
        *(HttpStatus(status) for status in (302, 400, 401, 403, 404, 410, 418, 451, 501, 505, 999)),
    ],
    ids=str,
)
def test_what_no_retry_can_mend_is_buried_at_once(error):
    assert verdict(error) == Bury(lease(), error)


@pytest.mark.parametrize(
    "error",
    [
        FetchTimeout(),
        ConnectFailed(),
        TlsFailed(),
        BrokenAnswer(),
        RuntimeError("a bug in the step"),
        *(HttpStatus(status) for status in (408, 425, 429, 500, 502, 503, 504, 520)),
    ],
    ids=repr,
)
def test_what_may_pass_is_tried_again_after_the_backoff(error):
    assert verdict(error) == Retry(lease(), error, after=SECOND / 2)


@pytest.mark.parametrize("error", [FetchTimeout(), DnsFailed(), HttpStatus(500), RuntimeError("x")], ids=repr)
def test_a_task_without_attempts_left_is_buried(error):
    assert isinstance(verdict(error, attempt=3), Retry)
    assert verdict(error, attempt=4) == Bury(lease(4), error)
    assert verdict(error, attempt=5) == Bury(lease(5), error)


def test_a_name_that_does_not_resolve_waits_longer():
    error = DnsFailed()
    assert verdict(error) == Retry(lease(), error, after=DNS_WAIT + SECOND / 2)


def test_a_host_whose_robots_txt_cannot_be_had_rests_with_all_its_pages():
    error, pause = RobotsUnavailable(), ROBOTS_WAIT + SECOND / 2
    assert verdict(error) == Retry(lease(), error, after=pause, pause_host=pause)
    pause = ROBOTS_WAIT + 4 * SECOND
    assert verdict(error, attempt=4) == Bury(lease(4), error, pause_host=pause)


def test_broken_tls_is_tried_once_more():
    error = TlsFailed()
    assert isinstance(verdict(error, attempt=1), Retry)
    assert verdict(error, attempt=2) == Bury(lease(2), error)


def test_a_server_error_may_say_when_to_come_back():
    error = HttpStatus(503, retry_after=MINUTE)
    assert verdict(error) == Retry(lease(), error, after=MINUTE)


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        (30 * SECOND, 30 * SECOND),
        (timedelta(days=1), LONGEST_PAUSE),
        (None, 2 * SECOND),
        (ZERO, 2 * SECOND),
        (-MINUTE, 2 * SECOND),
    ],
)
def test_a_host_that_blocks_is_paused_and_slowed(asked, pause):
    error = Blocked(429, retry_after=asked)
    assert verdict(error, attempt=3) == Retry(
        lease(3), error, after=pause, pause_host=pause, slow_host=SHORTEST_SLOWDOWN
    )


def test_a_host_that_blocks_is_spared_even_when_the_task_is_given_up():
    error = Blocked(403, retry_after=MINUTE)
    assert verdict(error, attempt=4) == Bury(lease(4), error, pause_host=MINUTE, slow_host=SHORTEST_SLOWDOWN)


def test_a_host_that_blocks_again_is_slowed_further():
    assert verdict(Blocked(429), host_delay=4 * SECOND).slow_host == 8 * SECOND


@settings(deadline=None, database=None)
@given(st.integers(1, 4), JITTERS, st.none() | st.timedeltas(-MINUTE, 2 * LONGEST_PAUSE))
def test_a_block_never_asks_for_a_pause_of_zero_which_would_end_another(attempt, jitter, asked):
    outcome = verdict(Blocked(429, retry_after=asked), attempt, jitter)
    assert SHORTEST_SLOWDOWN <= outcome.pause_host <= LONGEST_PAUSE


@pytest.mark.parametrize(
    ("attempt", "most"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (1_000_000, 300)]
)
def test_the_backoff_doubles_up_to_the_cap(attempt, most):
    assert RetryPolicy().backoff(attempt, HALF) == timedelta(seconds=most) / 2


@settings(deadline=None, database=None)
@given(st.integers(1, 100), JITTERS)
def test_the_backoff_is_spread_between_zero_and_the_cap(attempt, jitter):
    policy = RetryPolicy()
    assert ZERO <= policy.backoff(attempt, jitter) <= policy.cap
    assert policy.backoff(attempt, 0) == ZERO


@pytest.mark.parametrize("status", [403, 200])
def test_a_host_that_dislikes_one_of_many_proxies_is_not_asked_less(status):
    error = Blocked(status)
    assert verdict(error, by_proxies=True) == Retry(lease(), error, after=SECOND / 2)
    assert verdict(error, attempt=4, by_proxies=True) == Bury(lease(4), error)
    assert verdict(error).slow_host


@pytest.mark.parametrize("error", [Blocked(429), Blocked(503), Blocked(403, retry_after=MINUTE)], ids=str)
def test_a_host_that_asks_for_rest_gets_it_by_whatever_way_it_was_asked(error):
    assert verdict(error, by_proxies=True) == verdict(error)
    assert verdict(error, by_proxies=True).slow_host
