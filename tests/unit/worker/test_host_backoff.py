"""Complaints slow a host down, and any success reduces its slowdown in the store."""

from datetime import timedelta

from shoal.core.model import SECOND, ZERO
from shoal.core.pacing import slower
from shoal.worker.outcomes import LEASED_BEFORE, ONE_COMPLAINT, HostBackoff

HOST = "shop.example"
GAP = timedelta(milliseconds=100)


class Store:
    """A host's slowdown as the queue stores it, and workers that get it with their leases."""

    def __init__(self, workers=1):
        self.slowdown = ZERO
        self.workers = [HostBackoff(GAP) for _ in range(workers)]

    def complain(self, now, worker=0, known=None):
        """Do what a worker does when the host responds with 429."""
        backoff = self.workers[worker]
        delay = backoff.before_complaint(HOST, self.slowdown if known is None else known, now)
        self.slowdown = slower(delay).delay
        backoff.on_complaint(HOST, self.slowdown, now)
        return self.slowdown

    def succeed(self, now, worker=0, known=None, crawl_delay=None):
        known = self.slowdown if known is None else known
        eased = self.workers[worker].after_success(HOST, known, crawl_delay, now)
        self.slowdown = self.slowdown if eased is None else eased
        return eased


def test_a_complaint_doubles_the_gap_that_was_in_force():
    store = Store()
    assert store.complain(0.0) == 2 * GAP
    assert store.complain(10.0) == 4 * GAP


def test_requests_that_were_in_flight_together_slow_the_host_once():
    store = Store()
    assert [store.complain(now, known=ZERO) for now in (0.0, 0.1, 0.2, ONE_COMPLAINT / 2)] == [2 * GAP] * 4


def test_a_worker_increases_the_slowdown_that_others_have_set():
    store = Store(workers=2)
    assert store.complain(0.0, worker=0) == 2 * GAP
    assert store.complain(5.0, worker=1) == 4 * GAP


def test_successes_reduce_the_slowdown_to_the_gap_and_then_remove_it():
    store = Store()
    store.complain(0.0)
    steps = [store.succeed(10.0) for _ in range(6)]
    assert steps[:3] == sorted(steps[:3], reverse=True)
    assert ZERO in steps and steps[-1] is None
    assert store.slowdown == ZERO


def test_a_worker_that_never_saw_the_complaint_lets_the_host_recover():
    store = Store(workers=2)
    for n in range(5):
        store.complain(2.0 * n, worker=0)
    for _ in range(30):
        store.succeed(12.0, worker=1)
    assert store.slowdown == ZERO


def test_the_host_recovers_in_whatever_order_two_workers_settle():
    """Each success reduces the value in its lease, so an old value that was set last is reduced again."""
    store = Store(workers=2)
    store.complain(0.0, worker=0)
    stale = store.slowdown
    while store.slowdown:
        store.succeed(10.0, worker=0)
    store.slowdown = store.workers[1].after_success(HOST, stale, None, 10.0)
    assert store.slowdown > ZERO
    while store.slowdown:
        store.succeed(11.0, worker=0)


def test_a_success_of_a_lease_from_before_the_complaint_eases_nothing():
    store = Store()
    store.complain(0.0)
    assert store.succeed(1.0, known=ZERO) is None
    assert store.succeed(1.0, known=GAP) is None
    assert store.slowdown == 2 * GAP
    assert store.succeed(1.0 + LEASED_BEFORE, known=GAP) is not None


def test_a_crawl_delay_is_set_once_and_never_undercut():
    store = Store()
    assert store.succeed(0.0, crawl_delay=3 * SECOND) == 3 * SECOND
    assert store.succeed(3.0, crawl_delay=3 * SECOND) is None
    assert store.complain(6.0) == 6 * SECOND
    for n in range(20):
        store.succeed(20.0 + n, crawl_delay=3 * SECOND)
    assert store.slowdown == 3 * SECOND


def test_a_host_that_never_complained_has_nothing_to_change():
    backoff = HostBackoff(GAP)
    assert backoff.after_success(HOST, ZERO, None, 0.0) is None
    assert backoff.after_success(None, ZERO, None, 0.0) is None
    assert backoff.before_complaint(None, ZERO, 0.0) == GAP


def test_starts_are_planned_again_for_some_seconds_and_not_for_ever():
    backoff = HostBackoff(SECOND)
    assert backoff.must_replan(HOST, 100.0)
    assert backoff.must_replan(HOST, 104.0)
    assert not backoff.must_replan(HOST, 106.0), "the delay does not stay in the store"
    assert backoff.must_replan("b.test", 106.0)
    assert backoff.must_replan(HOST, 161.0)
