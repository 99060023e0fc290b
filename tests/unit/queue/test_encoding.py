"""Times to microseconds and back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.queue.encoding import FOREVER, duration, micros, moment, since_epoch


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_comes_back_as_it_was(at):
    assert moment(since_epoch(at)) == at


@given(st.timedeltas(min_value=timedelta(days=-36_500), max_value=timedelta(days=36_500)))
def test_a_duration_comes_back_as_it_was(span):
    assert duration(micros(span)) == span


def test_a_moment_of_another_zone_is_the_same_moment():
    east = timezone(timedelta(hours=5))
    assert since_epoch(datetime(1970, 1, 1, 5, tzinfo=east)) == 0


@pytest.mark.parametrize(("span", "count"), [(timedelta.max, FOREVER), (timedelta.min, -FOREVER)])
def test_what_does_not_fit_is_cut(span, count):
    assert micros(span) == count
