from datetime import UTC, datetime, timedelta

import pytest

from shoal.worker.storeclock import SAMPLES, StoreClock

EPOCH = datetime(2026, 2, 15, 12, tzinfo=UTC)
AHEAD = EPOCH.timestamp() - 100.0  # the worker's clock shows 100 when the store's shows EPOCH


def heard(clock, seconds, late):
    """Tell the clock of a moment of the store that is heard of late."""
    return clock.local(EPOCH + timedelta(seconds=seconds), 100.0 + seconds + late)


def test_the_quickest_answer_tells_how_late_the_others_are():
    clock = StoreClock()
    assert heard(clock, 0, late=0.02) == pytest.approx(100.02)
    assert heard(clock, 1, late=0.001) == pytest.approx(101.001)
    assert heard(clock, 2, late=0.3) == pytest.approx(102.001)


def test_a_clock_that_was_set_is_followed_after_a_while():
    clock = StoreClock()
    heard(clock, 0, late=0.001)
    for second in range(SAMPLES):
        found = heard(clock, second, late=5.0)
    assert found == pytest.approx(100.0 + SAMPLES - 1 + 5.0)


def test_a_store_that_tells_no_time_is_taken_to_answer_at_once():
    assert StoreClock().local(None, 7.0) == 7.0
