"""When a worker claims again after one that found nothing, decided with a clock that only the test moves."""

import heapq
import random
from datetime import timedelta
from typing import NamedTuple

import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, Grant
from shoal.worker.scheduler import (
    MAX_MISSES,
    MAX_NEEDED_DELAY_SECONDS,
    MAX_PAUSE,
    MAX_POLL_INTERVAL_SECONDS,
    MAX_RESTING_INTERVAL_SECONDS,
    PAUSE_SHARE,
    POLL_JITTER,
    Polling,
)

SOON = Grant(next_due=timedelta(milliseconds=250))
LATE = Grant(next_due=5 * MINUTE)  # when a lease of another worker may be lost


class Clock:
    """A worker's polling, and the time that passes between its claims."""

    def __init__(self, *, gap=ZERO, may_rest=False, uniform=max, is_needed=False):
        self.now = 100.0
        self.polling = Polling(gap, may_rest=may_rest, uniform=uniform, is_needed=is_needed)

    def find_nothing(self, grant=SOON, *, is_holding=False):
        """Return the seconds until the next claim, and let them pass."""
        following = self.polling.on_nothing(grant, self.now, self.now, is_holding=is_holding)
        wait = following.wait + following.yield_for
        self.now += wait
        return wait

    def settle(self, grant=SOON):
        """Return how long a claim after a settlement keeps the worker from the next such claim."""
        following = self.polling.on_nothing(grant, self.now, self.now, is_holding=True)
        self.now += following.yield_for
        return following.yield_for


@pytest.mark.parametrize("grant", [Grant(), LATE])
@pytest.mark.parametrize(
    ("may_rest", "longest"), [(False, MAX_POLL_INTERVAL_SECONDS), (True, MAX_RESTING_INTERVAL_SECONDS)]
)
def test_an_idle_worker_polls_soon_and_then_less_and_less_often(grant, may_rest, longest):
    clock = Clock(may_rest=may_rest)
    waits = [clock.find_nothing(grant) for _ in range(50)]
    assert waits[0] < 0.1 and waits == sorted(waits) and waits[-1] == longest
    # Thousands of workers that have nothing to do are a load until they rest.
    assert sum(wait < longest for wait in waits) < 8
    clock.polling.poll_soon()
    assert clock.find_nothing(grant) < 0.1


def test_workers_that_were_started_together_do_not_poll_all_at_once():
    waits = []
    for chance in (min, max):
        clock = Clock(uniform=chance)
        clock.polling._misses = MAX_MISSES
        waits.append(clock.find_nothing(Grant()))
    assert waits == [(1 - POLL_JITTER) * MAX_POLL_INTERVAL_SECONDS, MAX_POLL_INTERVAL_SECONDS]


def test_a_worker_that_holds_leases_polls_rarely_because_they_wake_it():
    assert Clock().find_nothing(LATE, is_holding=True) == MAX_POLL_INTERVAL_SECONDS


def test_a_worker_that_has_long_found_nothing_still_waits_for_a_task_that_is_due():
    clock = Clock(may_rest=True, uniform=min)
    clock.polling._misses = MAX_MISSES
    assert clock.find_nothing(Grant(next_due=timedelta(seconds=9))) == 9


def test_a_worker_does_not_spin_over_a_task_that_is_due_already():
    clock = Clock(uniform=min)
    assert clock.find_nothing(Grant(next_due=ZERO)) > 0


def test_a_worker_that_finds_something_each_time_is_always_on_time():
    clock = Clock(gap=SECOND)
    for _ in range(9):
        clock.polling.poll_soon()
        assert clock.find_nothing() == 0.25


@pytest.mark.parametrize("is_holding", [True, False])
def test_a_worker_that_comes_in_vain_for_a_host_comes_later_each_time(is_holding):
    clock = Clock(gap=SECOND)
    waits = [clock.find_nothing(is_holding=is_holding) for _ in range(20)]
    assert 0.25 < waits[0] < 0.35 and waits == sorted(waits)
    assert waits[-1] == 0.25 + MAX_POLL_INTERVAL_SECONDS


def test_workers_that_wait_for_the_same_host_come_at_different_times():
    early, late = Clock(gap=SECOND, uniform=min), Clock(gap=SECOND, uniform=max)
    assert early.find_nothing() == 0.25 < late.find_nothing()


def test_without_a_gap_a_worker_that_holds_leases_never_comes_late():
    assert {Clock(gap=ZERO).find_nothing(is_holding=True) for _ in range(20)} == {0.25}


@pytest.mark.parametrize("is_holding", [True, False])
def test_a_worker_with_proxies_of_its_own_never_comes_much_later(is_holding):
    clock = Clock(gap=SECOND, may_rest=True, is_needed=True)
    assert (
        max(clock.find_nothing(is_holding=is_holding) for _ in range(20)) == 0.25 + MAX_NEEDED_DELAY_SECONDS
    )


def test_a_worker_that_pauses_between_tasks_does_not_rest_while_a_host_is_free():
    clock = Clock(gap=SECOND, may_rest=True)
    clock.polling.has_pauses = True
    assert max(clock.find_nothing() for _ in range(20)) == 0.25 + MAX_POLL_INTERVAL_SECONDS
    assert clock.find_nothing(Grant()) == MAX_RESTING_INTERVAL_SECONDS, "no host has a task"
    clock.polling.has_pauses = False
    assert clock.find_nothing() == 0.25 + MAX_RESTING_INTERVAL_SECONDS


def test_claims_that_follow_settlements_wait_for_more_of_them_and_make_no_other_claim_late():
    clock = Clock(gap=SECOND)
    clock.polling.poll_soon()
    assert {clock.settle(Grant(next_due=SECOND)) for _ in range(20)} == {PAUSE_SHARE * 1.0} == {MAX_PAUSE}
    assert clock.find_nothing(is_holding=True) == 0.25, "they were no misses"
    assert clock.settle(Grant(next_due=timedelta(milliseconds=20))) <= 0.02 + 0.06


def test_without_a_gap_every_settlement_makes_the_worker_claim_at_once():
    clock = Clock(gap=ZERO)
    assert {clock.settle() for _ in range(20)} == {0}


# A fleet that polls one store, in simulated time

WARM_UP, SECONDS = 60.0, 20.0
BATCH, POOL = 50, 25
REPLY = 0.002  # seconds that a claim takes


class Measured(NamedTuple):
    """What a fleet did in a second, and how late it came for a free host in the mean."""

    claims: float
    tasks: float
    late: float


class Store:
    """Hosts that always have a task, and are free a second after the last one was claimed."""

    def __init__(self, hosts, chance):
        self._free = [(chance.uniform(0, 1), number) for number in range(hosts)]
        heapq.heapify(self._free)
        self.late = []

    def claim(self, now):
        hosts = []
        while self._free[0][0] <= now and len(hosts) < BATCH:
            free_at, host = heapq.heapreplace(self._free, (now + 1, self._free[0][1]))
            self.late.append((now, now - free_at))
            hosts.append(host)
        return hosts, Grant(next_due=timedelta(seconds=max(0.005, self._free[0][0] - now)))


def simulate(workers, hosts, *, seed=1, warm_up=WARM_UP, seconds=SECONDS):
    """Let idle workers claim from the store; the tasks themselves take no time."""
    chance = random.Random(seed)
    store, claims = Store(hosts, chance), []
    fleet = [
        Polling(SECOND, may_rest=bool(number % POOL), uniform=chance.uniform) for number in range(workers)
    ]
    events = [(chance.uniform(0, 5), number) for number in range(workers)]
    heapq.heapify(events)
    while (now := events[0][0]) < warm_up + seconds:
        _, number = heapq.heappop(events)
        claims.append(now)
        (found, grant), replied_at = store.claim(now + REPLY / 2), now + REPLY
        if found:
            fleet[number].poll_soon()
            heapq.heappush(events, (replied_at, number))
        else:
            following = fleet[number].on_nothing(grant, now, replied_at, is_holding=False)
            heapq.heappush(events, (replied_at + following.wait, number))
    late = [by for at, by in store.late if at > warm_up]
    return Measured(sum(at > warm_up for at in claims) / seconds, len(late) / seconds, sum(late) / len(late))


@pytest.mark.parametrize(("workers", "hosts"), [(8, 50), (200, 20)])
def test_the_claims_of_a_fleet_follow_its_tasks_and_not_its_workers(workers, hosts):
    fleet = simulate(workers, hosts)
    # Of a pool one worker polls every two seconds and the others every half a minute, tasks or not.
    polls = workers / POOL / MAX_POLL_INTERVAL_SECONDS + workers / MAX_RESTING_INTERVAL_SECONDS
    assert fleet.claims < 2.5 * fleet.tasks + 3 * polls
    assert fleet.tasks > 0.98 * hosts
    assert fleet.late < 0.01


def test_a_fleet_that_starts_finds_its_pace_before_it_is_a_load():
    workers = 200
    first = simulate(workers, 20, warm_up=0.0, seconds=30.0)
    # Those that are not needed come eight times each until they rest; a server has to bear that at once.
    assert first.claims * 30 < 2.5 * first.tasks * 30 + 9 * workers
