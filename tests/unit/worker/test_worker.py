from datetime import timedelta

import pytest

from shoal.core.model import MINUTE, Grant
from shoal.worker.claims import POLL_INTERVAL, next_poll_delay

SOON = Grant(next_due=timedelta(milliseconds=250))
LATE = Grant(next_due=5 * MINUTE)  # when a lease of another worker may be lost


@pytest.mark.parametrize("idle", [0, 1, 50])
def test_a_worker_waits_for_a_task_that_is_due_soon(idle):
    assert next_poll_delay(SOON, idle) == 0.25


@pytest.mark.parametrize("grant", [Grant(), LATE])
def test_an_idle_worker_polls_soon_and_then_less_and_less_often(grant):
    waits = [next_poll_delay(grant, idle) for idle in range(1, 100)]
    assert waits[0] < 0.05
    assert waits == sorted(waits)
    assert waits[4] < POLL_INTERVAL == waits[5] == waits[-1]


def test_a_worker_that_holds_leases_polls_rarely_because_they_wake_it():
    assert next_poll_delay(LATE, 0) == POLL_INTERVAL


def test_a_worker_does_not_spin_over_a_task_that_is_due_already():
    assert next_poll_delay(Grant(next_due=timedelta(0)), 1) > 0
