import signal
from datetime import timedelta

import pytest

from shoal.core.errors import DutyFailed
from shoal.core.model import MINUTE, SECOND, Bury, Release, Retry, Task
from shoal.worker.process import dead_worker as module
from shoal.worker.process.dead_worker import (
    DeadWorkerJudge,
    StepLimit,
    Suspects,
    describe_death,
    is_proven,
    max_memory,
    once_steps,
)
from shoal.worker.process.liveness import LivenessProblem
from tests.unit.builders import make_lease

LIMITS = {
    "page": StepLimit(MINUTE, 3),
    "order": StepLimit(5 * SECOND, 3, at_most_once=True),
    "slow": StepLimit(10 * MINUTE, 1),
}


def lease(step="page", attempt=1):
    return make_lease(Task(url="https://a.test/", step=step), attempt=attempt)


def judge(held, *, guilty=True, problem=None, how="was ended by SIGKILL"):
    return DeadWorkerJudge(LIMITS, problem, how, {1} if guilty else set()).judge(1, held)


def test_a_task_whose_step_did_not_run_goes_back_as_if_never_claimed():
    assert judge(lease(), guilty=False) == Release(lease())


def test_a_task_whose_step_ran_is_charged_and_waits_so_that_another_one_comes_first():
    outcome = judge(lease())
    assert isinstance(outcome, Retry) and timedelta(0) < outcome.after < MINUTE
    assert outcome.error == "WorkerDied: step 'page' was running when its worker was ended by SIGKILL"


@pytest.mark.parametrize(("step", "attempt"), [("page", 3), ("slow", 1)])
def test_the_last_attempt_of_a_step_is_buried(step, attempt):
    assert isinstance(judge(lease(step, attempt)), Bury)


def test_a_task_whose_worker_took_too_much_memory_is_buried_at_its_second_attempt():
    large = LivenessProblem.LARGE
    assert isinstance(judge(lease(), problem=large), Retry)
    assert isinstance(judge(lease(attempt=2), problem=large), Bury)
    assert isinstance(judge(lease("slow"), problem=large), Bury)
    assert isinstance(judge(lease("unknown"), problem=large), Retry)


@pytest.mark.parametrize("guilty", [True, False])
def test_a_task_at_most_once_is_buried_whether_or_not_its_step_ran(guilty):
    outcome = judge(lease("order"), guilty=guilty)
    assert isinstance(outcome, Bury) and "delivery is at_most_once" in outcome.error


@pytest.mark.parametrize(
    ("problem", "step", "error"),
    [
        (LivenessProblem.HUNG, "page", "StepHung: step 'page' timed out after 60 s"),
        (LivenessProblem.HUNG, "unknown", "StepHung: step 'unknown' timed out after 600 s"),
        (LivenessProblem.STUCK, "page", "TaskStuck: a task of step 'page', its fetch included, exceeded"),
    ],
)
def test_the_error_says_which_limit_was_exceeded(problem, step, error):
    assert judge(lease(step), problem=problem).error.startswith(error)


@pytest.mark.parametrize(
    ("code", "problem", "failure", "how"),
    [
        (None, None, None, "vanished"),
        (3, None, None, "left with exit code 3"),
        (-signal.SIGSEGV, None, None, "was ended by SIGSEGV"),
        (-signal.SIGKILL, LivenessProblem.FROZEN, None, "was killed, because it was frozen for 31 s"),
        (-signal.SIGKILL, LivenessProblem.HUNG, None, "was killed, because a step exceeded its time limit"),
        (-signal.SIGKILL, LivenessProblem.STUCK, None, "was killed, because a task exceeded its time limit"),
        (-signal.SIGKILL, LivenessProblem.LARGE, None, "was killed, because it took more than 4,096 MB"),
        (-signal.SIGKILL, None, DutyFailed("renewing its leases", ValueError("x")), "was killed, because "),
    ],
)
def test_a_death_is_described_by_its_cause(code, problem, failure, how):
    assert describe_death(code, problem, 31.2, failure, max_memory(256 << 20)).startswith(how)


def test_steps_that_are_attempted_once_are_listed():
    assert once_steps(LIMITS) == ["order"]


def test_a_task_that_ended_two_workers_while_no_step_ran_is_charged_with_what_is_known():
    how = "was ended by SIGSEGV"
    outcome = DeadWorkerJudge(LIMITS, None, how, {1}, is_alone=True).judge(1, lease(attempt=3))
    assert isinstance(outcome, Bury)
    assert outcome.error.startswith(
        "WorkerDied: the worker was ended by SIGSEGV while it had no other task in progress"
    )


def test_each_death_leaves_a_quarter_of_the_tasks_that_were_in_progress():
    suspects = Suspects()
    assert suspects.add([f"t{number}" for number in range(64)]) == 16
    assert suspects.add([f"t{number}" for number in range(16)]) == 4
    assert suspects.limits["t0"] == 4 and suspects.limits["t16"] == 16
    assert suspects.add(["t0", "t1"]) == 1
    assert suspects.limits["t0"] == 1


def test_a_death_beside_more_tasks_gives_a_suspect_no_larger_limit():
    suspects = Suspects()
    suspects.add(["t0"])
    suspects.add([f"t{number}" for number in range(64)])
    assert suspects.limits["t0"] == 1


def test_the_oldest_suspects_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "MAX_SUSPECTS", 2)
    suspects = Suspects()
    for task_id in ("t0", "t1", "t0", "t2"):
        suspects.add([task_id])
    assert list(suspects.limits) == ["t0", "t2"]


def test_a_task_is_charged_only_if_it_had_to_run_alone():
    assert is_proven(["t0"], {"t0": 1})
    assert not is_proven(["t0"], {})
    assert not is_proven(["t0"], {"t0": 4})
    assert not is_proven(["t0", "t1"], {"t0": 1, "t1": 1})
    assert not is_proven([], {})
