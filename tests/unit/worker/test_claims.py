from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from shoal.core.model import SECOND, ZERO, Task
from shoal.core.pacing import MAX_LEAD
from shoal.worker.claims import MARGIN, RECENT_REPLIES, SAMPLES, ClaimLead, StoreClock
from shoal.worker.prefetch import MAX_LAG, PrefetchBuffer
from tests.unit.builders import make_lease

EPOCH = datetime(2026, 2, 15, 12, tzinfo=UTC)


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


GAP = timedelta(milliseconds=200)
BURST = 5


@pytest.mark.parametrize(
    ("gap", "replies", "lead"),
    [
        (GAP, [], 0.0),
        (GAP, [0.001, 0.03], 0.0),  # the lag covers it
        (GAP, [0.3, 0.001], MARGIN * 0.3 - MAX_LAG),
        (timedelta(milliseconds=20), [0.03], MARGIN * 0.03 - 0.01),
        (GAP, [60.0], MAX_LEAD.total_seconds()),
        (ZERO, [0.3], 0.0),
    ],
)
def test_the_lead_covers_the_slowest_recent_reply(gap, replies, lead):
    leads = ClaimLead(gap)
    for seconds in replies:
        leads.record_reply(seconds)
    assert leads.next().total_seconds() == pytest.approx(lead, abs=1e-6)


def test_a_store_that_is_fast_again_needs_no_lead():
    leads = ClaimLead(GAP)
    leads.record_reply(1.0)
    for _ in range(RECENT_REPLIES):
        assert leads.next() > ZERO
        leads.record_reply(0.002)
    assert leads.next() == ZERO


def test_starts_of_a_slow_store_are_used_and_keep_their_gap():
    sent, used = work_on_one_host(slowest=0.4, has_lead=True)
    assert min(later - sooner for sooner, later in pairwise(sent)) >= 0.95 * 0.2
    assert used > 0.9
    # Without a lead the starts have passed when they arrive, and are not used.
    _, used = work_on_one_host(slowest=0.4, has_lead=False)
    assert used < 0.8


def test_a_fast_store_loses_nothing_by_it():
    sent, used = work_on_one_host(slowest=0.005, has_lead=True)
    assert min(later - sooner for sooner, later in pairwise(sent)) >= 0.95 * 0.2
    assert used > 0.97


def work_on_one_host(slowest, has_lead):
    """Let three workers claim; return when requests were sent, and the part of the rate that was used."""
    random, free, number, sent = Random(3), 0.0, 0, []
    workers = [(PrefetchBuffer(GAP), ClaimLead(GAP)) for _ in range(3)]
    next_claims, end = [0.0, 0.01, 0.02], 200.0
    while (now := min(next_claims)) < end:
        place = next_claims.index(now)
        buffer, leads = workers[place]
        lead = leads.next().total_seconds() if has_lead else 0.0
        if free > now + lead:
            next_claims[place] = max(now + 0.001, free - lead)
            continue
        first = now + lead
        free = first + BURST * 0.2
        replied_at = now + random.uniform(0.0, slowest)
        leads.record_reply(replied_at - now)
        buffer.put([a_lease(number + turn, first - now + turn * 0.2) for turn in range(BURST)], now)
        number += BURST
        while (due := buffer.next_due()) is not None:
            moment = max(due, replied_at)
            if (start := buffer.pop(moment)) and buffer.try_start(start, moment):
                sent.append(moment)
        next_claims[place] = replied_at + 0.001
    sent.sort()
    return sent, (len(sent) - 1) * 0.2 / (sent[-1] - sent[0])


def a_lease(number, start_in):
    return make_lease(
        Task(url="http://a.example/"),
        task_id=f"{number:032x}",
        start_in=timedelta(seconds=start_in),
        deadline_in=SECOND,
    )
