from datetime import timedelta

from shoal.core.model import SECOND, ZERO
from shoal.core.pacing import slower
from shoal.worker.manners import ONE_COMPLAINT, Manners

HOST = "shop.example"
GAP = timedelta(milliseconds=100)


def complain(manners, now):
    """Do what a worker does when a host answers 429."""
    delay = slower(manners.delay(HOST, now)).delay
    manners.slowed(HOST, delay, now)
    return delay


def test_a_complaint_doubles_the_gap_that_was_in_force():
    manners = Manners(GAP)
    assert complain(manners, 0.0) == 2 * GAP
    assert complain(manners, 10.0) == 4 * GAP


def test_what_was_in_the_air_together_slows_the_host_once():
    manners = Manners(GAP)
    delays = [complain(manners, now) for now in (0.0, 0.1, 0.2, ONE_COMPLAINT / 2)]
    assert delays == [2 * GAP] * 4


def test_successes_bring_the_host_back_to_the_run_s_own_gap_and_then_lift_its_delay():
    manners = Manners(GAP)
    complain(manners, 0.0)
    steps = [manners.succeeded(HOST) for _ in range(6)]
    assert steps[:3] == sorted(steps[:3], reverse=True)
    assert ZERO in steps
    assert steps[-1] is None
    assert manners.delay(HOST, 100.0) == GAP


def test_a_host_that_never_complained_has_nothing_to_change():
    manners = Manners(GAP)
    assert manners.succeeded(HOST) is None
    assert manners.succeeded(None) is None
    assert manners.delay(None, 0.0) == GAP


def test_a_crawl_delay_is_told_once_and_never_undercut():
    manners = Manners(GAP)
    assert manners.wishes(HOST, 3 * SECOND) == 3 * SECOND
    assert manners.wishes(HOST, 3 * SECOND) is None
    assert complain(manners, 0.0) == 6 * SECOND
    for _ in range(20):
        manners.succeeded(HOST)
    assert manners.delay(HOST, 100.0) == 3 * SECOND


def test_what_a_worker_changed_is_news_once():
    manners = Manners(GAP)
    complain(manners, 0.0)
    assert manners.news() == {HOST: 2 * GAP}
    assert manners.news() == {}
    while manners.succeeded(HOST):
        pass
    assert manners.news() == {HOST: None}


def test_a_host_that_another_worker_slowed_recovers_here():
    manners = Manners(GAP)
    manners.hear({HOST: SECOND})
    assert manners.succeeded(HOST) == SECOND * 4 // 5
    assert manners.news() == {HOST: SECOND * 4 // 5}


def test_a_host_that_recovered_elsewhere_has_recovered_here():
    manners = Manners(GAP)
    complain(manners, 0.0)
    manners.news()
    manners.hear({HOST: 2 * GAP})
    manners.hear({})
    assert manners.succeeded(HOST) is None


def test_what_a_worker_has_just_seen_is_not_overruled_by_older_news():
    manners = Manners(GAP)
    manners.hear({HOST: 2 * GAP})
    delay = complain(manners, 0.0)
    manners.hear({HOST: 2 * GAP})
    assert manners.delay(HOST, 100.0) == delay == 4 * GAP
    manners.hear({})
    assert manners.delay(HOST, 100.0) == delay
