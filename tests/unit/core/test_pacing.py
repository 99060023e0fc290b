"""When a host may get its next request."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.model import MINUTE, SECOND, ZERO
from shoal.core.pacing import (
    BURST_HORIZON,
    MAX_PAUSE,
    MIN_SLOWDOWN,
    burst,
    gap,
    recovered,
    slower,
)

DELAYS = st.timedeltas(ZERO, timedelta(hours=2))


@pytest.mark.parametrize(
    ("run", "last", "host", "expected"),
    [
        (ZERO, None, None, ZERO),
        (SECOND, None, None, SECOND),
        (SECOND, MINUTE, ZERO, MINUTE),
        (SECOND, ZERO, MINUTE, MINUTE),
        (MINUTE, SECOND, SECOND, MINUTE),
    ],
)
def test_the_longest_delay_is_the_gap(run, last, host, expected):
    assert gap(run, last, host) == expected


@pytest.mark.parametrize(
    ("milliseconds", "slots", "limit", "expected"),
    [
        (0, 4, 50, 4),
        (0, 50, 4, 4),
        (100, 50, 50, 10),
        (300, 50, 50, 4),
        (499, 50, 50, 3),
        (500, 50, 50, 2),
        (999, 50, 50, 2),
        (1000, 50, 50, 1),
        (60_000, 50, 50, 1),
        (100, 3, 50, 3),
        (100, 50, 2, 2),
        (100, 0, 50, 0),
        (0, -1, 50, 0),
        (60_000, 0, 1, 0),
    ],
)
def test_a_burst_fills_one_second_and_no_more(milliseconds, slots, limit, expected):
    assert burst(timedelta(milliseconds=milliseconds), slots, limit) == expected


@settings(deadline=None, database=None)
@given(st.timedeltas(timedelta(microseconds=1), MINUTE), st.integers(1, 100), st.integers(1, 100))
def test_every_start_of_a_burst_lies_under_the_horizon(spacing, slots, limit):
    count = burst(spacing, slots, limit)
    assert 1 <= count <= min(slots, limit)
    assert (count - 1) * spacing < BURST_HORIZON
    assert count == min(slots, limit) or count * spacing >= BURST_HORIZON


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ZERO, MIN_SLOWDOWN),
        (MIN_SLOWDOWN / 4, MIN_SLOWDOWN),
        (SECOND, 2 * SECOND),
        (40 * SECOND, MINUTE),
        (MINUTE, MINUTE),
    ],
)
def test_a_429_doubles_the_delay_of_a_host_within_bounds(before, after):
    assert slower(before).delay == after


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        (None, ZERO),
        (-SECOND, ZERO),
        (30 * SECOND, 30 * SECOND),
        (timedelta(days=30), MAX_PAUSE),
    ],
)
def test_a_retry_after_is_obeyed_up_to_a_maximum(retry_after, pause):
    assert slower(SECOND, retry_after) == (2 * SECOND, pause)


def test_a_host_recovers_by_fifths():
    assert recovered(10 * SECOND) == 8 * SECOND
    assert recovered(10 * SECOND, floor=9 * SECOND) == 9 * SECOND


@settings(deadline=None, database=None)
@given(DELAYS, DELAYS)
def test_a_host_never_recovers_below_its_floor(floor, extra):
    delay = floor + extra
    for _ in range(60):
        assert floor <= recovered(delay, floor) <= delay
        delay = recovered(delay, floor)
    assert delay == floor
