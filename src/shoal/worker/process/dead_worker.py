"""What follows from the death of a worker: who is charged, and what becomes of its other leases.

The task whose step was running is charged. If none was, as with a response that crashes a library, each task
that was in progress, or had ended and was not settled yet, is a suspect: the next workers run it beside a
quarter as many tasks, until it is alone. Then it is charged. Tasks that did nothing are only slowed down.
"""

import random
import signal
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shoal.core.errors import DutyFailed
from shoal.core.model import SECOND, Bury, Lease, Outcome, Release, Retry
from shoal.core.retry_policy import AT_MOST_ONCE, RetryPolicy
from shoal.queue.contract import WorkQueue
from shoal.worker.process.liveness import LivenessProblem

SHARE = 4
MAX_SUSPECTS = 10_000  # that are remembered, the newest


class Suspects:
    """The suspects of a pool, and how many tasks a worker may have in progress while it holds one."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}  # by task, the newest last

    @property
    def limits(self) -> dict[str, int]:
        """How many tasks may be in progress beside each suspect, it included."""
        return dict(self._limits)

    def add(self, task_ids: Collection[str]) -> int:
        """Record the tasks in progress at a death; return how many may be in progress from now on."""
        limit = max(1, len(task_ids) // SHARE)
        for task_id in task_ids:
            # Moved to the end, because the oldest are forgotten.
            self._limits[task_id] = min(limit, self._limits.pop(task_id, limit))
        for task_id in list(self._limits)[:-MAX_SUSPECTS]:
            del self._limits[task_id]
        return limit


def is_proven(in_progress: Sequence[str], limits: Mapping[str, int]) -> bool:
    """Return whether the only task in progress is one that had to run alone."""
    return len(in_progress) == 1 and limits.get(in_progress[0]) == 1


async def release_leases(
    queue: WorkQueue, worker_id: str, *, once: Collection[str] = (), how: str = "died"
) -> int:
    """Release every lease of a dead worker before a reclaim would, and return how many.

    Tasks of the steps `once` are not retried, because their requests may have been sent: they become dead
    letters that say how the worker ended.
    """
    return await queue.abandon(
        worker_id, once=once, reason=f"WorkerDied: the worker {how}, and {AT_MOST_ONCE}"
    )


AFTER_DEATH = RetryPolicy(base=2 * SECOND)


class StepLimit(NamedTuple):
    """Limits of a step: its time, its attempts, the time of a whole task, and whether it is at most once."""

    time: timedelta
    attempts: int
    whole: timedelta | None = None  # fetching and pausing included; None for no limit
    at_most_once: bool = False


def once_steps(limits: Mapping[str, StepLimit]) -> list[str]:
    """Return the steps whose tasks are attempted once at most."""
    return sorted(name for name, limit in limits.items() if limit.at_most_once)


# A worker takes several times the memory of its pages; what it takes beyond this is a fault, or an attack.
MEMORY_BESIDE_PAGES = 2 << 30  # bytes
MEMORY_PER_PAGE_BYTE = 8
MAX_LARGE = 2  # attempts of a task whose worker takes too much: each costs the tasks beside it a new start


def max_memory(page_bytes: int) -> int:
    """Return the most bytes that a worker may take which holds at most this many bytes of pages."""
    return MEMORY_BESIDE_PAGES + MEMORY_PER_PAGE_BYTE * page_bytes


def describe_death(
    code: int | None,
    problem: LivenessProblem | None,
    silence: float,
    failure: DutyFailed | None,
    most: int = 0,
) -> str:
    """Return how a worker died, as a sentence whose subject is the worker, without the subject.

    `code` is its exit code, `silence` the seconds since its last sign of life, `failure` an error of its
    supervisor, and `most` the bytes that it may take.
    """
    if failure:
        return f"was killed, because {failure}"
    match problem:
        case LivenessProblem.FROZEN:
            return f"was killed, because it was frozen for {silence:.0f} s"
        case LivenessProblem.HUNG:
            return "was killed, because a step exceeded its time limit"
        case LivenessProblem.STUCK:
            return "was killed, because a task exceeded its time limit"
        case LivenessProblem.LARGE:
            return f"was killed, because it took more than {most >> 20:,} MB of memory (--memory allows more)"
        case None:
            return _describe_exit_code(code)


def _describe_exit_code(code: int | None) -> str:
    if code is None:
        return "vanished"
    if code >= 0:
        return f"left with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


class DeadWorkerJudge(msgspec.Struct, frozen=True):
    """Decides the outcomes of the leases that a worker held when it ended."""

    limits: Mapping[str, StepLimit]
    problem: LivenessProblem | None
    how: str  # it died, as `describe_death` returns it
    guilty: Collection[int]  # numbers of the leases whose step was running, or that exceeded their time
    is_alone: bool = False  # the guilty one was the only task in progress, and its step was not running

    def judge(self, number: int, lease: Lease) -> Outcome:
        """Return the outcome of one lease: charged an attempt, or released as if it were never claimed."""
        limit = self.limits.get(lease.task.step)
        if limit and limit.at_most_once:
            # It is not known which requests were sent.
            return Bury(lease, f"WorkerDied: the worker {self.how}, and {AT_MOST_ONCE}")
        return self._charge(lease, limit) if number in self.guilty else Release(lease)

    def _charge(self, lease: Lease, limit: StepLimit | None) -> Outcome:
        error = self._describe_charge(lease, limit)
        # The queue knows the largest attempt limit of all steps, not the one of this step.
        most = limit.attempts if limit else lease.attempt + 1
        if lease.attempt >= (min(most, MAX_LARGE) if self.problem is LivenessProblem.LARGE else most):
            return Bury(lease, error)
        # The next worker should start with another task, to show whether that one kills it as well.
        return Retry(lease, error, after=AFTER_DEATH.backoff(lease.attempt, random.uniform(0.5, 1.0)))

    def _describe_charge(self, lease: Lease, limit: StepLimit | None) -> str:
        step = lease.task.step
        if self.is_alone:
            return (
                f"WorkerDied: the worker {self.how} while it had no other task in progress, and one had died "
                "with this task before. No step was running: its response may crash the code that fetches "
                "it, or its step has left a thread or an object that does"
            )
        match self.problem:
            case LivenessProblem.HUNG:
                time = limit.time if limit else max(limit.time for limit in self.limits.values())
                return f"StepHung: step {step!r} timed out after {time.total_seconds():g} s"
            case LivenessProblem.STUCK:
                return f"TaskStuck: a task of step {step!r}, its fetch included, exceeded its time limit"
            case _:
                return f"WorkerDied: step {step!r} was running when its worker {self.how}"
