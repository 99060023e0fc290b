"""When a worker's process is to be ended: decided from looks at it, without a clock."""

from datetime import timedelta

import pytest

from shoal.worker.liveness import (
    LONGEST_GAP,
    LOOK_EVERY,
    MOST_LOST_THREADS,
    SHORTEST_LIMIT,
    START_LIMIT,
    Liveness,
    Look,
    Trouble,
)
from shoal.worker.marks import Mark

LIMIT, STEP = 10.0, 60.0


class Watched:
    """A worker that is looked at again and again."""

    def __init__(self, limit=LIMIT, step=STEP):
        self.liveness = Liveness(limit, lambda number: step)
        self.now, self.beats = 1_000.0, 0

    def look(self, *marks, turns=False, stopped=False, gap=LOOK_EVERY):
        self.now += gap
        self.beats += turns
        return self.liveness.judge(Look(self.now, self.beats, marks, stopped))

    def look_for(self, seconds, *marks, turns=False, stopped=False):
        """Look on for a while; return the trouble and when it was found."""
        began = self.now
        while self.now - began < seconds:
            if trouble := self.look(*marks, turns=turns, stopped=stopped):
                return trouble, self.now - began
        return None, seconds


@pytest.fixture
def worker():
    found = Watched()
    found.look(turns=True)
    return found


def test_a_worker_whose_loop_turns_is_left_alone(worker):
    assert worker.look_for(1_000, turns=True)[0] is None
    assert not worker.liveness.is_silent


def test_a_silent_loop_is_frozen_when_its_limit_is_over_and_said_to_be_before(worker):
    assert worker.look_for(LIMIT / 2 + 1) == (None, LIMIT / 2 + 1)
    assert worker.liveness.is_silent
    trouble, seconds = worker.look_for(LIMIT)
    assert trouble is Trouble.FROZEN and seconds <= LIMIT / 2


def test_a_step_may_block_the_loop_for_as_long_as_it_may_take(worker):
    blocking = Mark(1, 1_000.0)
    assert worker.look_for(STEP, blocking)[0] is None
    assert not worker.liveness.is_silent
    trouble, seconds = worker.look_for(STEP, blocking)
    assert trouble is Trouble.HUNG and seconds <= 4 * LOOK_EVERY


def test_a_step_in_a_thread_that_holds_the_interpreter_s_lock_is_hung_at_its_limit(worker):
    trouble, seconds = worker.look_for(2 * STEP, Mark(1, 1_000.0, cell=3))
    assert trouble is Trouble.HUNG and STEP < seconds <= STEP + 6 * LOOK_EVERY


def test_threads_that_are_lost_are_forgiven_while_the_loop_turns_until_they_are_many(worker):
    lost = [Mark(number, 1_000.0, cell=number) for number in range(1, MOST_LOST_THREADS + 2)]
    assert worker.look_for(10 * STEP, *lost[:-1], turns=True)[0] is None
    assert worker.look_for(2 * STEP, *lost, turns=True)[0] is Trouble.HUNG


def test_a_lost_thread_does_not_hide_that_the_loop_is_frozen(worker):
    lost = Mark(1, 1_000.0, cell=1)
    assert worker.look_for(2 * STEP, lost, turns=True)[0] is None
    assert worker.look_for(2 * LIMIT, lost)[0] is not None


def test_a_stopped_process_is_frozen_though_a_step_is_marked(worker):
    trouble, seconds = worker.look_for(STEP, Mark(1, 1_000.0), stopped=True)
    assert trouble is Trouble.FROZEN and seconds <= LIMIT + LOOK_EVERY


def test_many_short_steps_on_the_loop_are_turns_of_it(worker):
    for number in range(1, 200):
        assert worker.look(Mark(number, worker.now)) is None


def test_a_keeper_that_was_stalled_itself_blames_nobody_for_that_time(worker):
    worker.look_for(LIMIT - 1)
    for _ in range(50):
        assert worker.look(Mark(1, 1_000.0), gap=LONGEST_GAP + 100) is None
    assert worker.look(gap=LONGEST_GAP + 100) is None
    assert worker.look_for(LIMIT - 1)[0] is None, "after a stall the worker has its whole time again"


def test_a_loop_that_has_not_begun_has_longer_for_what_it_loads():
    worker = Watched()
    assert worker.look_for(START_LIMIT - 1)[0] is None
    assert worker.look_for(10)[0] is Trouble.FROZEN


def test_the_limit_is_the_lease_but_no_less_than_a_busy_machine_needs():
    def limit(seconds):
        return Liveness.within(timedelta(seconds=seconds), lambda number: STEP).limit

    assert (limit(60), limit(0.5)) == (60, SHORTEST_LIMIT)
