from datetime import timedelta

import pytest

from shoal.core.model import MINUTE, Grant
from shoal.worker.worker import LOOK_AGAIN, until_next_look

SOON = Grant(next_due=timedelta(milliseconds=250))
LATE = Grant(next_due=5 * MINUTE)  # when a lease of another worker may be lost


@pytest.mark.parametrize("idle", [0, 1, 50])
def test_what_is_due_soon_is_waited_for(idle):
    assert until_next_look(SOON, idle) == 0.25


@pytest.mark.parametrize("grant", [Grant(), LATE])
def test_who_has_nothing_to_do_looks_for_the_end_soon_and_then_less_and_less_often(grant):
    waits = [until_next_look(grant, idle) for idle in range(1, 100)]
    assert waits[0] < 0.05
    assert waits == sorted(waits)
    assert waits[4] < LOOK_AGAIN == waits[5] == waits[-1]


def test_who_has_work_in_hand_is_woken_by_it_and_need_not_look():
    assert until_next_look(LATE, 0) == LOOK_AGAIN


def test_nobody_spins_over_what_is_due_already():
    assert until_next_look(Grant(next_due=timedelta(0)), 1) > 0
