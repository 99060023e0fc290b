"""Rate limits are parsed in every spelling, and never understood to reset sooner than they do."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.http import Headers, Response
from shoal.fetch.tokens.rate_limit_headers import MAX_WINDOW, rate_limit_in

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
EPOCH = int(NOON.timestamp())


def rate_limit(**fields):
    named = Headers((name.replace("_", "-"), value) for name, value in fields.items())
    return rate_limit_in(Response(url="https://api.test/", status=200, headers=named), NOON)


def seconds(found):
    return found.resets_in.total_seconds()


@pytest.mark.parametrize("family", ["x_ratelimit", "ratelimit", "x_rate_limit"])
def test_the_three_headers_are_read_in_each_family(family):
    found = rate_limit(**{f"{family}_limit": "5000", f"{family}_remaining": "4999", f"{family}_reset": "60"})
    assert (found.limit, found.left) == (5000, 4999)
    assert seconds(found) == 61  # a whole number may have lost a second


@pytest.mark.parametrize(
    ("reset", "wait"),
    [
        ("30", 31),
        ("0.5", 0.5),
        (str(EPOCH + 90), 91),
        (str((EPOCH + 90) * 1000), 91),
        ("Sun, 15 Feb 2026 12:01:30 GMT", 91),
        ("2026-02-15T12:01:30Z", 91),
        (str(EPOCH - 5_000), 0),
    ],
)
def test_a_reset_is_seconds_or_a_moment(reset, wait):
    assert seconds(rate_limit(x_ratelimit_remaining="1", x_ratelimit_reset=reset)) == wait


def test_a_moment_counts_from_the_hosts_own_date():
    an_hour_fast = NOON + timedelta(hours=1)
    found = rate_limit(
        date=an_hour_fast.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        x_ratelimit_remaining="0",
        x_ratelimit_reset=str(EPOCH + 3600 + 30),
    )
    assert seconds(found) == 31


def test_the_structured_header_is_read_with_its_policy():
    found = rate_limit(ratelimit='"default";r=50;t=30', ratelimit_policy='"default";q=100;w=60')
    assert (found.left, found.limit, seconds(found)) == (50, 100, 31)


def test_of_several_policies_the_one_that_leaves_least_counts():
    found = rate_limit(
        ratelimit='"day";r=900;t=80000, "min";r=2;t=10', ratelimit_policy='"day";q=1000,"min";q=60'
    )
    assert (found.left, found.limit, seconds(found)) == (2, 60, 11)


def test_the_combined_header_of_older_drafts_is_read():
    found = rate_limit(ratelimit="limit=100, remaining=50, reset=5")
    assert (found.left, found.limit, seconds(found)) == (50, 100, 6)


def test_a_list_of_limits_and_fractions_are_read():
    found = rate_limit(ratelimit_limit="100, 100;w=60", ratelimit_remaining="595.9", ratelimit_reset="1")
    assert (found.limit, found.left) == (100, 595)


def test_retry_after_is_reported_beside_it():
    assert rate_limit(retry_after="120").retry_after == timedelta(minutes=2)


def test_a_host_that_says_nothing_tells_nothing():
    assert rate_limit(x_ratelimit_limit="100", x_ratelimit_reset="5").left is None
    assert rate_limit().resets_in is None


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=200))
def test_whatever_a_host_sends_it_is_read_or_not_and_bounded(remaining, reset, structured):
    found = rate_limit(x_ratelimit_remaining=remaining, x_ratelimit_reset=reset, ratelimit=structured)
    assert found.left is None or found.left >= 0
    assert found.resets_in is None or timedelta(0) <= found.resets_in <= MAX_WINDOW


def test_a_reset_in_a_million_years_is_bounded():
    assert rate_limit(x_ratelimit_remaining="0", x_ratelimit_reset="9" * 15).resets_in == MAX_WINDOW
    assert rate_limit(ratelimit='"d";r=0;t=999999999999999').resets_in == MAX_WINDOW
