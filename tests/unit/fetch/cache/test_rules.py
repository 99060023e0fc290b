"""What a shared cache may store and for how long, as a table (RFC 9111)."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.http import Headers
from shoal.fetch.cache.rules import (
    directives,
    fresh_for,
    storage_policy,
    update_headers,
    validators,
)

NOW = datetime(2026, 2, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TAG = ("etag", '"1"')


def at(seconds):
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def seconds_kept(*fields, status=200, **sent):
    """Return for how many seconds of the operator's minute a response is fresh, None if it is not stored."""
    kept = storage_policy(status, Headers(fields), sent, NOW)
    return None if kept is None else kept.fresh_for(MINUTE).total_seconds()


def says(text):
    return ("cache-control", text)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([], 60),  # the host says nothing: the operator's word holds
        ([says("max-age=10")], 10),
        ([says("max-age=3600")], 60),  # never longer than the operator wants
        ([says("MAX-AGE = 10")], 10),
        ([says('max-age="10"')], 10),
        ([says("max-age=3600, s-maxage=5")], 5),  # of two, that for caches which are shared
        ([says("max-age=30"), says("max-age=20")], 20),  # said twice: the shorter
        ([says("max-age=30"), ("age", "25")], 5),
        ([says("max-age=30"), ("date", at(-20))], 10),
        ([says("max-age=30"), ("date", at(-20)), ("age", "25")], 5),
        ([says("max-age=30"), ("date", at(9999))], 30),  # a clock that is ahead makes nothing younger
        ([("expires", at(10)), ("date", at(0))], 10),
        ([("expires", at(10))], 10),
        ([says("max-age=20"), ("expires", at(-10))], 20),
        ([("vary", "Accept-Encoding")], 60),
        ([says("public"), ("set-cookie", "a=b")], 60),
    ],
)
def test_an_answer_is_good_for(fields, seconds):
    assert seconds_kept(*fields) == seconds


@pytest.mark.parametrize(
    "fields",
    [
        [says("no-store")],
        [says("no-store, max-age=60"), TAG],
        [says("private")],
        [says('private="x-user", max-age=60')],
        [says("max-age=0")],
        [says("max-age=never")],  # what is no number is out of date
        [says("max-age=-5")],
        [says("no-cache")],
        [("expires", "0")],
        [("expires", at(-1))],
        [says("max-age=10"), ("age", "10")],
        [("set-cookie", "session=1")],
        [("vary", "*")],
        [("vary", "Accept, *"), TAG],
        [("vary", "Cookie")],
    ],
)
def test_an_answer_is_not_kept(fields):
    assert seconds_kept(*fields) is None


@pytest.mark.parametrize("fields", [[says("no-cache")], [says("max-age=0")], [("expires", "0")]])
def test_what_must_be_asked_about_is_kept_if_there_is_something_to_ask_by(fields):
    assert seconds_kept(*fields, TAG) <= 0
    assert seconds_kept(*fields, ("last-modified", at(-100))) <= 0


@pytest.mark.parametrize("status", [201, 206, 304, 400, 401, 403, 429, 500, 502, 503, 999])
def test_a_status_that_is_no_answer_is_never_kept(status):
    assert seconds_kept(says("max-age=60, public"), TAG, status=status) is None


@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_passing_redirect_is_kept_only_if_it_says_how_long(status):
    assert seconds_kept(status=status) is None
    assert seconds_kept(says("max-age=10"), status=status) == 10
    assert seconds_kept(status=301) == 60


@pytest.mark.parametrize("secret", ["authorization", "cookie"])
def test_a_response_to_credentials_is_cached_only_if_it_is_public(secret):
    assert seconds_kept(says("max-age=10"), **{secret: "x"}) is None
    assert seconds_kept(says("max-age=10, public"), **{secret: "x"}) == 10
    assert seconds_kept(says("s-maxage=10"), **{secret: "x"}) == 10


def test_a_request_may_forbid_keeping():
    assert storage_policy(200, Headers(), {"cache-control": "no-store"}, NOW) is None


def test_the_shorter_of_two_times_holds():
    assert fresh_for(None, MINUTE) == MINUTE
    assert fresh_for(timedelta(hours=1), MINUTE) == MINUTE
    assert fresh_for(timedelta(seconds=1), MINUTE) == timedelta(seconds=1)


def test_a_validator_that_could_split_a_request_is_not_sent():
    assert validators({"etag": '"a"', "last-modified": "now"}) == {
        "if-none-match": '"a"',
        "if-modified-since": "now",
    }
    for odd in ('"a"\r\nx: y', '"\xe9"', '"\x7f"', "x" * 2_000):
        assert validators({"etag": odd}) == {}


def test_a_304_brings_the_fields_up_to_date_but_not_those_of_the_body():
    kept = Headers(
        [("etag", '"1"'), ("content-type", "text/html"), ("cache-control", "max-age=1"), ("x", "y")]
    )
    news = Headers([("Cache-Control", "max-age=9"), ("content-type", "text/plain"), ("set-cookie", "a=b")])
    assert update_headers(kept, news).fields == (
        ("etag", '"1"'),
        ("content-type", "text/html"),
        ("x", "y"),
        ("Cache-Control", "max-age=9"),
    )


NAMES = ["cache-control", "expires", "date", "age", "vary", "etag", "last-modified", "set-cookie", "pragma"]


@given(
    st.integers(0, 999),
    st.lists(st.tuples(st.sampled_from(NAMES), st.text(max_size=80)), max_size=8),
    st.dictionaries(st.sampled_from(["cache-control", "cookie"]), st.text(max_size=40)),
)
def test_no_answer_makes_the_judgement_fail(status, fields, sent):
    kept = storage_policy(status, Headers(fields), sent, NOW)
    assert kept is None or kept.fresh_for(MINUTE) <= MINUTE
    directives(Headers(fields))
