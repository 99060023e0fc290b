"""A fleet that polls one store, in simulated time: it asks about as often as there is something to claim."""

import heapq
import random
from datetime import timedelta
from typing import NamedTuple

import pytest

from shoal.core.model import MINUTE, SECOND, Grant, Lease, Task
from shoal.worker.claiming.polling import (
    MAX_POLL_INTERVAL_SECONDS,
    MAX_RESTING_INTERVAL_SECONDS,
    Polling,
)

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
        self._free = [(chance.uniform(0, 1), f"h{number}.test") for number in range(hosts)]
        heapq.heapify(self._free)
        self.late = []

    def claim(self, now):
        leases = []
        while self._free and self._free[0][0] <= now and len(leases) < BATCH:
            free_at, host = heapq.heappop(self._free)
            self.late.append((now, now - free_at))
            leases.append(lease(host))
        for held in leases:
            heapq.heappush(self._free, (now + 1, held.task_id))
        return Grant(leases=leases, next_due=timedelta(seconds=max(0.005, self._free[0][0] - now)))


def lease(host):
    task = Task(url=f"https://{host}/", step="page")
    return Lease(
        run_id="r", task_id=host, token=1, task=task, attempt=1, start_in=0 * SECOND, deadline_in=MINUTE
    )


def simulate(workers, hosts, *, seed=1, warm_up=WARM_UP, seconds=SECONDS):
    """Let idle workers claim from the store; the tasks themselves take no time."""
    chance = random.Random(seed)
    store, claims = Store(hosts, chance), []
    fleet = [
        Polling(
            SECOND,
            max_interval=MAX_RESTING_INTERVAL_SECONDS if number % POOL else MAX_POLL_INTERVAL_SECONDS,
            uniform=chance.uniform,
        )
        for number in range(workers)
    ]
    events = [(chance.uniform(0, 5), number) for number in range(workers)]
    heapq.heapify(events)
    while (now := events[0][0]) < warm_up + seconds:
        _, number = heapq.heappop(events)
        claims.append(now)
        grant, replied_at = store.claim(now + REPLY / 2), now + REPLY
        if grant.leases:
            fleet[number].on_leases(grant.leases, now + REPLY / 2, now)
            heapq.heappush(events, (replied_at, number))
        else:
            following = fleet[number].on_nothing(
                grant, now, replied_at, is_holding=False, has_prefetched=False
            )
            heapq.heappush(events, (replied_at + following.wait + following.yield_for, number))
    late = [by for at, by in store.late if at > warm_up]
    return Measured(sum(at > warm_up for at in claims) / seconds, len(late) / seconds, sum(late) / len(late))


@pytest.mark.parametrize(("workers", "hosts"), [(1, 20), (8, 50), (200, 20), (1_000, 100)])
def test_the_claims_of_a_fleet_follow_its_tasks_and_not_its_workers(workers, hosts):
    fleet = simulate(workers, hosts)
    # Of a pool one worker polls every two seconds and the others every half a minute, tasks or not.
    polls = workers / POOL / MAX_POLL_INTERVAL_SECONDS + workers / MAX_RESTING_INTERVAL_SECONDS
    assert fleet.claims < 2.5 * fleet.tasks + 3 * polls
    assert fleet.tasks > 0.98 * hosts
    assert fleet.late < 0.01


@pytest.mark.parametrize(("workers", "hosts"), [(200, 20), (1_000, 100)])
def test_a_fleet_that_starts_finds_its_pace_before_it_is_a_load(workers, hosts):
    first = simulate(workers, hosts, warm_up=0.0, seconds=30.0)
    # Those that are not needed come five times each until they rest; a server has to bear that at once.
    assert first.claims * 30 < 2.5 * first.tasks * 30 + 5 * workers
