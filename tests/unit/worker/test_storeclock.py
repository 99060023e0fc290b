from datetime import UTC, datetime, timedelta

import pytest

from shoal.worker.storeclock import SAMPLES, StoreClock

EPOCH = datetime(2026, 2, 15, 12, tzinfo=UTC)
AHEAD = EPOCH.timestamp() - 100.0  # the worker's clock shows 100 when the store's shows EPOCH


def heard(clock, seconds, late, asked_at=None):
    """Tell the clock of a moment of the store that is heard of late."""
    return clock.local(EPOCH + timedelta(seconds=seconds), 100.0 + seconds + late, asked_at)


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


def test_an_answer_is_in_doubt_by_as_long_as_the_quickest_took():
    clock = StoreClock()
    heard(clock, 0, late=3.0, asked_at=99.9)
    assert clock.doubt == pytest.approx(3.1)
    heard(clock, 5, late=0.001, asked_at=104.99)
    heard(clock, 9, late=3.0, asked_at=108.9)
    assert clock.doubt == pytest.approx(0.011)


def test_an_answer_without_the_store_s_time_is_in_doubt_by_as_long_as_it_took():
    clock = StoreClock()
    assert clock.local(None, 7.0, 4.0) == 7.0
    assert clock.doubt == 3.0


def test_a_clock_that_was_set_back_makes_no_answer_older_than_its_question():
    clock = StoreClock()
    heard(clock, 0, late=0.001, asked_at=99.99)
    assert heard(clock, 5 - 3600, late=3600.001, asked_at=104.99) == 104.99
