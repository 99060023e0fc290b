"""What happens to a failed task."""

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
    InvalidSetting,
    InvalidUrl,
    NoSuchHost,
    OutOfScope,
    ParseFailed,
    PrivateAddress,
    RetryLater,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
)
from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Retry
from shoal.core.pacing import MAX_PAUSE, MIN_SLOWDOWN
from shoal.core.retry_policy import CONNECT_WAIT, DNS_WAIT, ROBOTS_WAIT, RetryPolicy, RetryRule, judge
from tests.unit.builders import make_lease

POLICY = RetryPolicy(max_attempts=4)
HALF = 0.5
JITTERS = st.floats(0, 1, exclude_max=True)


def lease(attempt=1):
    return make_lease(attempt=attempt)


def verdict(error, attempt=1, jitter=HALF, **more):
    return judge(lease(attempt), error, POLICY, jitter=jitter, **more)


@pytest.mark.parametrize(
    "error",
    [
        RobotsDenied(),
        NoSuchHost(),
        OutOfScope(),
        PrivateAddress("10.0.0.1", ""),
        TooLarge(),
        ParseFailed(),
        InvalidUrl("x", "it has no scheme"),
        InvalidItem({}, "it is not JSON"),
        *(HttpStatus(status) for status in (302, 400, 401, 403, 404, 410, 418, 451, 501, 505, 999)),
    ],
    ids=str,
)
def test_a_permanent_error_is_buried_at_once(error):
    assert verdict(error) == Bury(lease(), error)


@pytest.mark.parametrize(
    "error",
    [
        FetchTimeout(),
        TlsFailed(),
        BrokenAnswer(),
        RuntimeError("a bug in the step"),
        *(HttpStatus(status) for status in (408, 425, 429, 500, 502, 503, 504, 520)),
    ],
    ids=repr,
)
def test_a_transient_error_is_retried_after_the_backoff(error):
    assert verdict(error) == Retry(lease(), error, after=SECOND / 2)


def test_a_host_without_a_connection_gets_some_seconds_to_restart():
    error = ConnectFailed("connection refused")
    assert verdict(error) == Retry(lease(), error, after=CONNECT_WAIT + SECOND / 2)
    second = judge(lease(attempt=2), error, RetryPolicy(), jitter=0.5)
    assert second == Retry(lease(attempt=2), error, after=2 * CONNECT_WAIT + SECOND)
    assert judge(lease(attempt=3), error, RetryPolicy(), jitter=0.5) == Bury(lease(attempt=3), error)


def test_a_delay_that_is_set_replaces_the_seconds_to_restart():
    error = ConnectFailed("connection refused")
    policy = RetryPolicy(rules={"ConnectFailed": RetryRule(delay=SECOND / 5)})
    assert judge(lease(), error, policy, jitter=0.5) == Retry(lease(), error, after=SECOND / 10)


@pytest.mark.parametrize("error", [FetchTimeout(), DnsFailed(), HttpStatus(500), RuntimeError("x")], ids=repr)
def test_a_task_without_attempts_left_is_buried(error):
    assert isinstance(verdict(error, attempt=3), Retry)
    assert verdict(error, attempt=4) == Bury(lease(4), error)
    assert verdict(error, attempt=5) == Bury(lease(5), error)


def test_a_name_that_does_not_resolve_waits_longer():
    error = DnsFailed()
    assert verdict(error) == Retry(lease(), error, after=DNS_WAIT + SECOND / 2)


def test_a_host_whose_robots_txt_is_unavailable_is_paused():
    error, pause = RobotsUnavailable(), ROBOTS_WAIT + SECOND / 2
    assert verdict(error) == Retry(lease(), error, after=pause, pause_host=pause)
    pause = ROBOTS_WAIT + 4 * SECOND
    assert verdict(error, attempt=4) == Bury(lease(4), error, pause_host=pause)


def test_a_tls_error_is_retried_once():
    error = TlsFailed()
    assert isinstance(verdict(error, attempt=1), Retry)
    assert verdict(error, attempt=2) == Bury(lease(2), error)


def test_a_server_error_may_carry_a_retry_after():
    error = HttpStatus(503, retry_after=MINUTE)
    assert verdict(error) == Retry(lease(), error, after=MINUTE)


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        (30 * SECOND, 30 * SECOND),
        (timedelta(days=1), MAX_PAUSE),
        (None, 2 * SECOND),
        (ZERO, 2 * SECOND),
        (-MINUTE, 2 * SECOND),
    ],
)
def test_a_host_that_blocks_is_paused_and_slowed(asked, pause):
    error = Blocked(429, retry_after=asked)
    assert verdict(error, attempt=3) == Retry(
        lease(3), error, after=pause, pause_host=pause, slow_host=MIN_SLOWDOWN
    )


def test_a_host_that_blocks_is_slowed_even_when_the_task_is_buried():
    error = Blocked(403, retry_after=MINUTE)
    assert verdict(error, attempt=4) == Bury(lease(4), error, pause_host=MINUTE, slow_host=MIN_SLOWDOWN)


@settings(deadline=None, database=None)
@given(st.integers(1, 4), JITTERS, st.none() | st.timedeltas(-MINUTE, 2 * MAX_PAUSE))
def test_a_block_never_sets_a_pause_of_zero_which_would_end_another(attempt, jitter, asked):
    outcome = verdict(Blocked(429, retry_after=asked), attempt, jitter)
    assert MIN_SLOWDOWN <= outcome.pause_host <= MAX_PAUSE


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
def test_a_host_that_blocks_one_of_many_proxies_is_not_slowed(status):
    error = Blocked(status)
    assert verdict(error, by_proxies=True) == Retry(lease(), error, after=SECOND / 2)
    assert verdict(error, attempt=4, by_proxies=True) == Bury(lease(4), error)
    assert verdict(error).slow_host


@pytest.mark.parametrize("error", [Blocked(429), Blocked(503), Blocked(403, retry_after=MINUTE)], ids=str)
def test_a_retry_after_is_obeyed_with_and_without_proxies(error):
    assert verdict(error, by_proxies=True) == verdict(error)
    assert verdict(error, by_proxies=True).slow_host


class ApiDown(Exception):
    """An error of a user's own code."""


class ApiOverloaded(ApiDown):
    """A kind of it."""


TEN_MINUTES, MINUTES_30 = 10 * MINUTE, 30 * MINUTE
RULES = {
    "HttpStatus": RetryRule(attempts=5),
    "FetchTimeout": RetryRule(attempts=1),
    "ConnectFailed": RetryRule(attempts=6, delay=10 * SECOND, jitter=0.0),
    "Blocked": RetryRule(delay=2 * MINUTE, jitter=0.0),
    "ApiDown": RetryRule(attempts=8, delay=MINUTES_30, jitter=0.0),
    "RuntimeError": RetryRule(factor=3.0, cap=5 * SECOND, jitter=0.0),
}
BY_CLASS = RetryPolicy(max_attempts=3, rules=RULES)


@pytest.mark.parametrize(
    ("error", "attempt", "after"),
    [
        (HttpStatus(500), 4, 4 * SECOND),
        (HttpStatus(500), 5, None),
        (HttpStatus(404), 1, None),  # no rule makes a page appear
        (FetchTimeout(), 1, None),
        (BrokenAnswer(), 2, SECOND),  # no rule: the default
        (BrokenAnswer(), 3, None),
        (ConnectFailed(), 1, 10 * SECOND),
        (ConnectFailed(), 3, 40 * SECOND),
        (DnsFailed(), 2, 20 * SECOND),  # the rule of its base class, instead of a minute
        (TlsFailed(), 5, 160 * SECOND),  # instead of two attempts
        (TlsFailed(), 6, None),
        (ApiDown(), 1, MINUTES_30),
        (ApiOverloaded(), 7, MINUTES_30),  # a delay above the cap raises the cap
        (ApiOverloaded(), 8, None),
        (RuntimeError("x"), 1, SECOND),
        (RuntimeError("x"), 2, 3 * SECOND),
        (ParseFailed(), 1, None),
    ],
    ids=str,
)
def test_attempts_and_delays_differ_by_error_class(error, attempt, after):
    outcome = judge(lease(attempt), error, BY_CLASS, jitter=HALF)
    assert outcome == (Bury(lease(attempt), error) if after is None else Retry(lease(attempt), error, after))


@pytest.mark.parametrize(
    ("asked", "pause"), [(None, 2 * MINUTE), (SECOND, 2 * MINUTE), (TEN_MINUTES, TEN_MINUTES)]
)
def test_a_rule_for_blocks_pauses_the_host_at_least_as_long(asked, pause):
    outcome = judge(lease(), Blocked(429, retry_after=asked), BY_CLASS, jitter=HALF)
    assert (outcome.after, outcome.pause_host) == (pause, pause)


@pytest.mark.parametrize(
    ("share", "least", "most"), [(1.0, ZERO, MINUTE), (0.5, MINUTE / 2, MINUTE), (0.0, MINUTE, MINUTE)]
)
def test_the_jitter_is_the_random_share_of_a_delay(share, least, most):
    policy = RetryPolicy(base=MINUTE, jitter=share)
    assert (policy.backoff(1, 0.0), policy.backoff(1, 1.0)) == (least, most)


NONE = AttributeError("'NoneType' object has no attribute 'text'")
UNBOUND = UnboundLocalError("cannot access local variable 'last'")


@pytest.mark.parametrize(
    ("error", "is_repeated", "is_final"),
    [
        (NameError("name 'x' is not defined"), False, True),
        (ImportError("No module named 'x'"), False, True),
        (SyntaxError("invalid syntax"), False, True),
        (TypeError("f() takes 1 argument"), False, True),
        (AttributeError("'Page' object has no attribute 'x'"), False, True),
        (NONE, False, False),
        (NONE, True, True),
        (UNBOUND, False, False),
        (UNBOUND, True, True),
        (KeyError("price"), False, False),
        (KeyError("price"), True, True),
        (IndexError("list index out of range"), True, True),
        (ValueError("not loaded yet"), True, False),
        (RuntimeError("busy"), True, False),
    ],
    ids=repr,
)
def test_an_error_of_your_code_is_retried_only_if_another_page_may_help(error, is_repeated, is_final):
    found = verdict(error, in_own_code=True, is_repeated=is_repeated)
    assert isinstance(found, Bury if is_final else Retry)
    assert isinstance(verdict(error, is_repeated=is_repeated), Retry)  # raised by a library


def test_a_rule_with_attempts_retries_errors_of_your_code():
    policy = RetryPolicy(max_attempts=4, rules={"NameError": RetryRule(attempts=2)})
    error = NameError("x")
    found = [judge(lease(n), error, policy, jitter=HALF, in_own_code=True) for n in (1, 2)]
    assert isinstance(found[0], Retry) and isinstance(found[1], Bury)


def test_a_step_may_ask_for_another_attempt_after_a_time():
    error = RetryLater("not ready", after="5m")
    assert verdict(error) == Retry(lease(), error, after=5 * MINUTE)
    assert verdict(RetryLater(), jitter=HALF).after == SECOND / 2
    assert isinstance(verdict(error, attempt=4), Bury)
    assert str(RetryLater()) == "the step asked for another attempt"
    with pytest.raises(InvalidSetting, match="after must be"):
        RetryLater(after="soon")


def test_a_rule_with_attempts_retries_a_name_that_does_not_exist():
    policy = RetryPolicy(rules={"DnsFailed": RetryRule(attempts=3)})
    assert isinstance(judge(lease(), NoSuchHost(), policy, jitter=HALF), Retry)


BY_STATUS = RetryPolicy(
    rules={
        "5xx": RetryRule(attempts=5),
        "502": RetryRule(attempts=2),
        "404": RetryRule(attempts=2),
        "410": RetryRule(delay=MINUTE),
        "429": RetryRule(attempts=1),
        "HttpStatus": RetryRule(attempts=9),
    }
)


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (HttpStatus(500), 5),
        (HttpStatus(501), 5),
        (HttpStatus(502), 2),
        (HttpStatus(408), 9),
        (HttpStatus(404), 2),
        (HttpStatus(410), 1),
        (HttpStatus(403), 1),
        (Blocked(429), 1),
        (Blocked(503), 5),
    ],
    ids=str,
)
def test_rules_by_status_go_before_those_by_class(error, attempts):
    found = [judge(lease(n), error, BY_STATUS, jitter=HALF) for n in range(1, 11)]
    assert [isinstance(one, Bury) for one in found].index(True) + 1 == attempts
