"""When a worker claims again after one that found nothing, decided with a clock that only the test moves."""

from datetime import timedelta

import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, Grant, Lease, Task
from shoal.worker.claiming.polling import (
    CLAIM_JITTER,
    EARLY_SHARE,
    FULL_INTERVAL_AFTER,
    MAX_DEFEATS,
    MAX_IDLE_DEFEATS,
    MAX_POLL_INTERVAL_SECONDS,
    MAX_RESTING_INTERVAL_SECONDS,
    MISSED,
    POLL_INTERVAL_SECONDS,
    POLL_JITTER,
    Polling,
    next_poll_delay,
)

SOON = Grant(next_due=timedelta(milliseconds=250))
LATE = Grant(next_due=5 * MINUTE)  # when a lease of another worker may be lost


def lease(host, *, start_in=ZERO):
    return Lease(
        run_id="r",
        task_id=host,
        token=1,
        task=Task(url=f"https://{host}/", step="page"),
        attempt=1,
        start_in=start_in,
        deadline_in=MINUTE,
    )


class Clock:
    """A worker's polling, and the time that passes between its claims."""

    def __init__(self, *, gap=ZERO, longest=MAX_POLL_INTERVAL_SECONDS, uniform=max, has_turns=True):
        self.now = 100.0
        self.polling = Polling(gap, max_interval=longest, uniform=uniform, has_turns=has_turns)

    def find(self, *leases):
        self.polling.on_leases(leases, self.now, self.now)

    def find_nothing(self, grant=SOON, *, is_holding=False, has_prefetched=False, passes=True):
        """Return the seconds until the next claim, and let them pass."""
        following = self.polling.on_nothing(
            grant, self.now, self.now, is_holding=is_holding, has_prefetched=has_prefetched
        )
        wait = following.wait + following.yield_for
        self.now += wait if passes else 0
        return pytest.approx(wait)

    def settle(self, grant=SOON):
        """Return how long a claim after a settlement keeps the worker from the next such claim."""
        following = self.polling.on_nothing(grant, self.now, self.now, is_holding=True, has_prefetched=False)
        self.now += following.yield_for
        return following.yield_for


# Polls


def test_an_idle_worker_backs_off_and_begins_again_after_it_had_a_task():
    clock = Clock()
    waits = [clock.find_nothing(Grant()).expected for _ in range(6)]
    assert waits == sorted(waits) and waits[0] < 0.05 and waits[-1] == POLL_INTERVAL_SECONDS
    clock.find(lease("a.test"))
    assert clock.find_nothing(Grant()) == waits[0]


@pytest.mark.parametrize("idle", [0, 1, 50])
def test_a_worker_waits_for_a_task_that_is_due_soon(idle):
    assert next_poll_delay(SOON, idle) == 0.25


@pytest.mark.parametrize("grant", [Grant(), LATE])
def test_an_idle_worker_polls_soon_and_then_less_and_less_often(grant):
    waits = [next_poll_delay(grant, idle, MAX_RESTING_INTERVAL_SECONDS) for idle in range(1, 100)]
    assert waits[0] < 0.05
    assert waits == sorted(waits)
    assert waits[4] < POLL_INTERVAL_SECONDS == waits[5]
    assert waits[-1] == MAX_RESTING_INTERVAL_SECONDS
    # It never waits for more than two thirds of the time for which it has found nothing.
    assert all(
        wait <= 0.67 * sum(waits[:at]) for at, wait in enumerate(waits) if wait > 2 * POLL_INTERVAL_SECONDS
    )
    # Thousands of workers that have nothing to do are a load until they rest.
    assert sum(wait < MAX_RESTING_INTERVAL_SECONDS for wait in waits) < 15


def test_a_worker_that_has_long_found_nothing_still_comes_when_a_task_is_due():
    assert next_poll_delay(Grant(next_due=timedelta(seconds=9)), 99, MAX_RESTING_INTERVAL_SECONDS) == 9


@pytest.mark.parametrize("longest", [MAX_POLL_INTERVAL_SECONDS, MAX_RESTING_INTERVAL_SECONDS])
def test_a_worker_finds_a_new_task_within_its_longest_interval_however_long_it_was_idle(longest):
    clock = Clock(longest=longest)
    assert max(clock.find_nothing(Grant()).expected for _ in range(200)) == pytest.approx(longest)


def test_workers_that_were_started_together_do_not_poll_all_at_once():
    waits = {Clock(uniform=chance) for chance in (min, max)}
    for clock in waits:
        clock.polling.rest()
    waits = sorted(clock.find_nothing(Grant()).expected for clock in waits)
    assert waits == pytest.approx([(1 - POLL_JITTER) * MAX_POLL_INTERVAL_SECONDS, MAX_POLL_INTERVAL_SECONDS])


def test_a_worker_rests_after_many_polls_until_it_has_a_task_or_is_woken():
    clock = Clock()
    for _ in range(FULL_INTERVAL_AFTER):
        clock.find_nothing(Grant())
    assert not clock.polling.is_resting
    clock.find_nothing(Grant())
    assert clock.polling.is_resting
    clock.polling.poll_soon()
    assert not clock.polling.is_resting
    assert clock.find_nothing(Grant()).expected < POLL_INTERVAL_SECONDS


def test_a_worker_that_holds_leases_polls_rarely_because_they_wake_it():
    assert next_poll_delay(LATE, 0) == POLL_INTERVAL_SECONDS


def test_a_worker_does_not_spin_over_a_task_that_is_due_already():
    assert next_poll_delay(Grant(next_due=timedelta(0)), 1) > 0


# Hosts that others serve


def test_a_worker_that_always_loses_the_race_for_a_host_comes_later_and_later():
    clock = Clock(gap=SECOND)
    waits = [clock.find_nothing(is_holding=True).expected for _ in range(60)]
    assert waits[: MAX_DEFEATS + 1] == pytest.approx([0.25] * (MAX_DEFEATS + 1)), "a few defeats are chance"
    assert waits[MAX_DEFEATS + 1] > 0.25
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(POLL_INTERVAL_SECONDS + 0.25)


@pytest.mark.parametrize("longest", [MAX_POLL_INTERVAL_SECONDS, MAX_RESTING_INTERVAL_SECONDS])
def test_one_that_holds_no_lease_comes_later_after_its_second_defeat(longest):
    clock = Clock(gap=SECOND, longest=longest)
    waits = [clock.find_nothing().expected for _ in range(20)]
    # If it may rest, another one of its pool comes on time.
    late = EARLY_SHARE if longest == MAX_RESTING_INTERVAL_SECONDS else 0
    assert waits[: MAX_IDLE_DEFEATS + 1] == pytest.approx([0.25 + late] * (MAX_IDLE_DEFEATS + 1))
    assert waits[MAX_IDLE_DEFEATS + 1] == pytest.approx(1.25)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(longest + 0.25)


def test_a_fleet_that_is_not_needed_rests_after_a_few_claims_each():
    clock, began = Clock(gap=SECOND, longest=MAX_RESTING_INTERVAL_SECONDS, uniform=min), 100.0
    claims = 0
    while clock.now < began + 30:
        claims += 1
        clock.find_nothing()
    assert claims <= 8


def test_workers_that_hold_nothing_and_lose_together_do_not_come_back_together():
    early, late = Clock(gap=SECOND, uniform=min), Clock(gap=SECOND, uniform=max)
    for _ in range(3):
        waits = [clock.find_nothing().expected for clock in (early, late)]
    assert waits == pytest.approx([0.75, 1.25])


def test_without_a_gap_a_worker_that_holds_leases_never_comes_late():
    clock = Clock(gap=ZERO)
    assert {clock.find_nothing(is_holding=True).expected for _ in range(60)} == {0.25}


@pytest.mark.parametrize("is_holding", [True, False])
def test_without_turns_no_worker_comes_before_the_others_however_often_it_lost(is_holding):
    clock = Clock(gap=SECOND, longest=MAX_RESTING_INTERVAL_SECONDS, has_turns=False)
    clock.find(lease("a.example"))
    waits = [clock.find_nothing(is_holding=is_holding).expected for _ in range(20)]
    assert waits == pytest.approx(20 * [0.25 + CLAIM_JITTER])


def test_a_worker_that_wins_comes_on_time_again():
    clock = Clock()
    for _ in range(60):
        clock.find_nothing()
    clock.find(lease("a.test"))
    assert clock.find_nothing() == 0.25


def test_a_worker_that_is_woken_comes_on_time_again_as_long_as_it_does_not_lose():
    clock = Clock(gap=SECOND)
    for _ in range(60):
        clock.find_nothing()
    clock.polling.poll_soon()
    waits = [clock.find_nothing().expected for _ in range(MAX_IDLE_DEFEATS + 2)]
    assert waits == pytest.approx([0.25] * (MAX_IDLE_DEFEATS + 1) + [1.25])


@pytest.mark.parametrize(("is_holding", "patience"), [(True, MAX_DEFEATS), (False, MAX_IDLE_DEFEATS)])
def test_losing_again_after_a_victory_takes_a_worker_back_to_nearly_where_it_was(is_holding, patience):
    clock = Clock(gap=SECOND / 10, longest=MAX_RESTING_INTERVAL_SECONDS)
    soon = Grant(next_due=timedelta(milliseconds=50))
    for _ in range(patience + 6):
        before = clock.find_nothing(soon, is_holding=is_holding).expected
    clock.find()
    again = [clock.find_nothing(soon, is_holding=is_holding).expected for _ in range(patience + 2)]
    assert 0.05 < again[-1] < before


def test_a_worker_comes_on_time_for_the_hosts_that_it_served_last_however_often_it_lost_others():
    clock = Clock(gap=SECOND)
    for _ in range(60):
        clock.find_nothing()
    served_at = clock.now
    clock.find(lease("a.test"), lease("b.test"))
    for _ in range(60):
        while clock.now < served_at + 0.999:
            clock.find_nothing(is_holding=True, has_prefetched=True)
        assert clock.now == pytest.approx(served_at + 1)
        served_at = clock.now
        clock.find(lease("a.test"))


def test_the_turn_of_a_host_follows_its_last_start_in_the_claim():
    clock = Clock(gap=SECOND / 2)
    clock.find(lease("a.test"), lease("a.test", start_in=SECOND / 2))
    assert clock.find_nothing(Grant()).expected < 0.05, "it is idle"
    clock.polling.rest()
    began = clock.now - 0.04
    clock.find_nothing(Grant())
    assert clock.now == pytest.approx(began + 1)


def test_a_claim_serves_all_hosts_that_are_free_by_then():
    clock = Clock(gap=SECOND)
    clock.find(lease("a.test"))
    clock.now += 0.004
    clock.find(lease("b.test"))
    clock.now += 0.996
    clock.find(lease("a.test"), lease("b.test"))
    assert clock.find_nothing(LATE, is_holding=True) == 1


def test_a_worker_that_cannot_claim_learns_once_that_its_hosts_are_free():
    clock = Clock(gap=SECOND)
    assert clock.polling.until_missed(clock.now) == POLL_INTERVAL_SECONDS
    clock.find(lease("a.test"), lease("b.test"))
    clock.now += 0.9
    assert not clock.polling.take_missed_turns(clock.now)
    clock.now += clock.polling.until_missed(clock.now)
    assert clock.now == pytest.approx(101 + MISSED)
    assert clock.polling.take_missed_turns(clock.now + 0.001)
    assert not clock.polling.take_missed_turns(clock.now + 2)


def test_a_changed_gap_voids_the_turns_that_were_expected():
    clock = Clock(gap=SECOND / 2)
    clock.find(lease("a.test"))
    clock.polling.set_gap(MINUTE)
    assert clock.find_nothing(LATE, is_holding=True) == POLL_INTERVAL_SECONDS


def test_a_worker_with_prefetched_leases_lets_others_claim_first():
    clock = Clock()
    assert clock.find_nothing(is_holding=True, has_prefetched=True) == 0.25 + CLAIM_JITTER


# Settlements


def test_settlements_that_free_nothing_make_a_worker_claim_less_and_less_often():
    clock = Clock(gap=SECOND)
    assert clock.settle() == 0
    waits = [clock.settle(Grant(next_due=MINUTE)) for _ in range(20)]
    assert waits == sorted(waits) and 0 < waits[0] < 0.05
    assert waits[-1] == EARLY_SHARE


def test_once_a_settlement_frees_something_the_next_one_makes_the_worker_claim_at_once():
    clock = Clock(gap=SECOND)
    for _ in range(20):
        clock.settle()
    clock.find(lease("a.test"))
    assert clock.settle() == 0


def test_no_wait_for_settlements_makes_a_claim_late_that_comes_for_a_host():
    clock = Clock(gap=SECOND)
    for _ in range(20):
        clock.settle(Grant())
    assert clock.find_nothing(Grant(next_due=timedelta(milliseconds=20)), is_holding=True) == 0.02


def test_without_a_gap_every_settlement_makes_the_worker_claim_at_once():
    clock = Clock(gap=ZERO)
    assert {clock.settle() for _ in range(20)} == {0}
