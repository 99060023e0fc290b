"""When a worker process must be killed: decided from samples, without a clock."""

from datetime import timedelta

import pytest

from shoal.worker.ipc.step_markers import StepMarker
from shoal.worker.process.liveness import (
    MAX_GAP,
    MAX_LOST_THREADS,
    MIN_LIMIT,
    SAMPLE_INTERVAL_SECONDS,
    START_LIMIT,
    Liveness,
    LivenessProblem,
    LivenessSample,
)

LIMIT, STEP = 10.0, 60.0


class ObservedWorker:
    """A worker of which samples are taken."""

    def __init__(self, limit=LIMIT, step=STEP):
        self.liveness = Liveness(limit, lambda number: step)
        self.now, self.beats = 1_000.0, 0

    def sample(self, *markers, turns=False, stopped=False, gap=SAMPLE_INTERVAL_SECONDS):
        self.now += gap
        self.beats += turns
        return self.liveness.judge(LivenessSample(self.now, self.beats, markers, stopped))

    def sample_for(self, seconds, *markers, turns=False, stopped=False):
        """Take samples for a while; return the problem and when it was found."""
        began = self.now
        while self.now - began < seconds:
            if problem := self.sample(*markers, turns=turns, stopped=stopped):
                return problem, self.now - began
        return None, seconds


@pytest.fixture
def worker():
    found = ObservedWorker()
    found.sample(turns=True)
    return found


def test_a_worker_whose_loop_runs_has_no_problem(worker):
    assert worker.sample_for(1_000, turns=True)[0] is None
    assert not worker.liveness.is_silent


def test_a_silent_loop_is_frozen_after_its_limit_and_reported_before(worker):
    assert worker.sample_for(LIMIT / 2 + 1) == (None, LIMIT / 2 + 1)
    assert worker.liveness.is_silent
    problem, seconds = worker.sample_for(LIMIT)
    assert problem is LivenessProblem.FROZEN and seconds <= LIMIT / 2


def test_a_step_may_block_the_loop_up_to_its_time_limit(worker):
    blocking = StepMarker(1, 1_000.0)
    assert worker.sample_for(STEP, blocking)[0] is None
    assert not worker.liveness.is_silent
    problem, seconds = worker.sample_for(STEP, blocking)
    assert problem is LivenessProblem.HUNG and seconds <= 4 * SAMPLE_INTERVAL_SECONDS


def test_a_step_in_a_thread_that_holds_the_gil_is_hung_at_its_limit(worker):
    problem, seconds = worker.sample_for(2 * STEP, StepMarker(1, 1_000.0, cell=3))
    assert problem is LivenessProblem.HUNG and STEP < seconds <= STEP + 6 * SAMPLE_INTERVAL_SECONDS


def test_a_few_lost_threads_are_tolerated_while_the_loop_runs(worker):
    lost = [StepMarker(number, 1_000.0, cell=number) for number in range(1, MAX_LOST_THREADS + 2)]
    assert worker.sample_for(10 * STEP, *lost[:-1], turns=True)[0] is None
    assert worker.sample_for(2 * STEP, *lost, turns=True)[0] is LivenessProblem.HUNG


def test_a_lost_thread_does_not_hide_that_the_loop_is_frozen(worker):
    lost = StepMarker(1, 1_000.0, cell=1)
    assert worker.sample_for(2 * STEP, lost, turns=True)[0] is None
    assert worker.sample_for(2 * LIMIT, lost)[0] is not None


def test_a_stopped_process_is_frozen_though_a_step_is_marked(worker):
    problem, seconds = worker.sample_for(STEP, StepMarker(1, 1_000.0), stopped=True)
    assert problem is LivenessProblem.FROZEN and seconds <= LIMIT + SAMPLE_INTERVAL_SECONDS


def test_many_short_steps_on_the_loop_show_that_it_runs(worker):
    for number in range(1, 200):
        assert worker.sample(StepMarker(number, worker.now)) is None


def test_a_supervisor_that_was_stalled_itself_does_not_count_that_time(worker):
    worker.sample_for(LIMIT - 1)
    for _ in range(50):
        assert worker.sample(StepMarker(1, 1_000.0), gap=MAX_GAP + 100) is None
    assert worker.sample(gap=MAX_GAP + 100) is None
    assert worker.sample_for(LIMIT - 1)[0] is None, "after a stall the worker has its whole time again"


def test_a_loop_that_has_not_started_has_more_time_to_load():
    worker = ObservedWorker()
    assert worker.sample_for(START_LIMIT - 1)[0] is None
    assert worker.sample_for(10)[0] is LivenessProblem.FROZEN


def test_the_limit_is_the_lease_but_no_less_than_a_busy_machine_needs():
    def limit(seconds):
        return Liveness.within(timedelta(seconds=seconds), lambda number: STEP).limit

    assert (limit(60), limit(0.5)) == (60, MIN_LIMIT)
