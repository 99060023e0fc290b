"""Which responses are pages, and what the others mean."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import Blocked, HttpStatus
from shoal.core.http import Headers, Response
from shoal.fetch.status import MAX_WAIT, SEARCHED_BYTES, accepted, retry_after

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def answer(status=200, body=b"", **headers):
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Response(url="https://a.test/", status=status, headers=Headers(fields), body=body)


@pytest.mark.parametrize("status", [200, 201, 204, 206, 299])
def test_a_page_passes_as_it_is(status):
    page = answer(status)
    assert accepted(page) is page


@pytest.mark.parametrize("status", [304, 404, 429])
def test_another_status_passes_if_it_is_asked_for(status):
    assert accepted(answer(status), also={304, 404, 429}).status == status


@pytest.mark.parametrize("status", [100, 101, 300, 304, 400, 401, 404, 410, 500, 502, 504, 600, 999])
def test_an_error_status_is_an_error(status):
    with pytest.raises(HttpStatus) as caught:
        accepted(answer(status))
    assert caught.value.status == status
    assert not isinstance(caught.value, Blocked)


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_host_that_wants_to_be_left_alone_is_heard(status):
    with pytest.raises(Blocked) as caught:
        accepted(answer(status, Retry_After="120"))
    assert (caught.value.status, caught.value.retry_after) == (status, timedelta(minutes=2))


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", timedelta(0)),
        ("30", timedelta(seconds=30)),
        (" 30 ", timedelta(seconds=30)),
        ("1.5", timedelta(seconds=1.5)),
        ("999999999", MAX_WAIT),
        ("Mon, 01 Jun 2026 12:05:00 GMT", timedelta(minutes=5)),
        ("Monday, 01-Jun-26 12:05:00 GMT", timedelta(minutes=5)),
        ("Mon Jun  1 12:05:00 2026", timedelta(minutes=5)),
        ("Mon, 01 Jun 2026 14:05:00 +0200", timedelta(minutes=5)),
        ("Mon, 01 Jun 2020 12:00:00 GMT", timedelta(0)),
        ("Mon, 01 Jun 9999 12:00:00 GMT", MAX_WAIT),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("9999999999999999999999", None),
        ("٣", None),
        ("Mon, 99 Jun 2026 99:05:00 GMT", None),
        ("Mon, 01 Jun 2026 12:05:00 +9999999999", None),
    ],
)
def test_a_wait_is_read_in_seconds_and_as_a_date(text, wait):
    assert retry_after(answer(503, Retry_After=text), now=NOON) == wait


def test_a_date_counts_from_the_hosts_own_clock():
    late = answer(503, Retry_After="Mon, 01 Jun 2026 12:05:00 GMT", Date="Mon, 01 Jun 2026 12:04:00 GMT")
    assert retry_after(late, now=NOON) == timedelta(minutes=1)


def test_a_host_that_does_not_ask_for_a_wait_gets_none():
    assert retry_after(answer(503)) is None


def test_a_block_page_is_a_block():
    pattern = re.compile("are you a (human|robot)", re.IGNORECASE)
    assert accepted(answer(body=b"a page"), block=pattern)
    with pytest.raises(Blocked, match="block page"):
        accepted(answer(body="Ärger: Are you a ROBOT?".encode()), block=pattern)


def test_only_the_beginning_of_a_page_is_searched():
    pattern = re.compile("captcha")
    assert accepted(answer(body=b"x" * SEARCHED_BYTES + b"captcha"), block=pattern)


def test_a_block_page_is_a_block_whatever_its_status():
    for status in (206, 400, 419):
        with pytest.raises(Blocked):
            accepted(answer(status, body=b"captcha"), block=re.compile("captcha"))


def test_bytes_that_are_no_text_can_be_searched():
    assert accepted(answer(body=bytes(range(256))), block=re.compile("captcha"))
