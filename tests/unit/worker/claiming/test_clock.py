from datetime import UTC, datetime, timedelta

import pytest

from shoal.worker.claiming.clock import SAMPLES, StoreClock

EPOCH = datetime(2026, 2, 15, 12, tzinfo=UTC)
AHEAD = EPOCH.timestamp() - 100.0  # the worker's clock shows 100 when the store's shows EPOCH


def receive(clock, seconds, late, sent_at=None):
    """Give the clock a time of the store that is received late."""
    return clock.to_local(EPOCH + timedelta(seconds=seconds), 100.0 + seconds + late, sent_at)


def test_the_fastest_reply_shows_how_late_the_others_are():
    clock = StoreClock()
    assert receive(clock, 0, late=0.02) == pytest.approx(100.02)
    assert receive(clock, 1, late=0.001) == pytest.approx(101.001)
    assert receive(clock, 2, late=0.3) == pytest.approx(102.001)


def test_a_clock_that_was_set_is_followed_after_a_while():
    clock = StoreClock()
    receive(clock, 0, late=0.001)
    for second in range(SAMPLES):
        found = receive(clock, second, late=5.0)
    assert found == pytest.approx(100.0 + SAMPLES - 1 + 5.0)


def test_a_store_that_sends_no_time_is_assumed_to_reply_at_once():
    assert StoreClock().to_local(None, 7.0) == 7.0


def test_the_uncertainty_is_the_round_trip_of_the_fastest_reply():
    clock = StoreClock()
    receive(clock, 0, late=3.0, sent_at=99.9)
    assert clock.uncertainty == pytest.approx(3.1)
    receive(clock, 5, late=0.001, sent_at=104.99)
    receive(clock, 9, late=3.0, sent_at=108.9)
    assert clock.uncertainty == pytest.approx(0.011)


def test_the_uncertainty_of_a_reply_without_a_time_is_its_round_trip():
    clock = StoreClock()
    assert clock.to_local(None, 7.0, 4.0) == 7.0
    assert clock.uncertainty == 3.0


def test_a_clock_that_was_set_back_makes_no_reply_older_than_its_request():
    clock = StoreClock()
    receive(clock, 0, late=0.001, sent_at=99.99)
    assert receive(clock, 5 - 3600, late=3600.001, sent_at=104.99) == 104.99
