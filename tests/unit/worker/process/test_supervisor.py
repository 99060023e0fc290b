"""What a supervisor does while its worker runs, as far as it needs no process."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE, ZERO, Lease, Task
from shoal.worker.ipc.protocol import LeasesClaimed, LeasesSettled, WorkerConfig
from shoal.worker.process import supervisor as module
from shoal.worker.process.dead_worker import StepLimit
from shoal.worker.process.liveness import SAMPLE_INTERVAL, LivenessSample
from shoal.worker.process.supervisor import WorkerSupervisor

LIMITS = {"page": StepLimit(MINUTE, 3, timedelta(seconds=100))}


class Store:
    """A queue whose extensions fail with the given errors."""

    def __init__(self, *errors):
        self.errors, self.extended = list(errors), 0

    async def extend(self, leases, *, lease):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.extended += 1


def supervise(queue, lease=30):
    config = WorkerConfig(
        queue="", run_id="r", worker_id="w", scraper="s", lease=timedelta(seconds=lease), memory=1 << 20
    )
    return WorkerSupervisor(queue, config, None, limits=LIMITS)


def leases(count, start_in=ZERO):
    return [
        Lease(
            run_id="r",
            task_id=f"t{number}",
            token=1,
            task=Task(url=f"https://a.test/{number}", step="page"),
            attempt=1,
            start_in=start_in,
            deadline_in=MINUTE,
        )
        for number in range(count)
    ]


async def test_a_failed_extension_is_retried_soon_and_then_less_often(monkeypatch):
    slept, enough = [], 9

    async def sleep(seconds):
        slept.append(seconds)
        if len(slept) == enough:
            raise asyncio.CancelledError

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    queue = Store(None, QueueError("away"), QueueError("full"), *[QueueError("away")] * 3, None)
    with pytest.raises(asyncio.CancelledError):
        await supervise(queue)._extend()
    assert slept == [10, 10, 0.2, 0.4, 0.8, 1.6, 2.0, 10, 10]


def observe(supervisor, seconds):
    """Let the supervisor take samples while the loop runs."""
    for _ in range(round(seconds / SAMPLE_INTERVAL)):
        last = supervisor._liveness._last
        now, beats = (last.at, last.beats) if last else (0.0, 0)
        supervisor._liveness.judge(LivenessSample(now + SAMPLE_INTERVAL, beats + 1, []))


def test_a_task_that_does_not_end_while_the_loop_runs_is_stuck_when_nothing_else_is_settled():
    supervisor = supervise(Store())
    observe(supervisor, 1)
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    observe(supervisor, 120)
    assert not supervisor._find_stuck()
    supervisor._handle_message(LeasesSettled([1]))
    observe(supervisor, 120)
    assert not supervisor._find_stuck(), "one was settled meanwhile"
    observe(supervisor, 20)
    assert supervisor._find_stuck() == [2, 3]


def test_a_task_is_not_stuck_before_its_start_nor_while_the_queue_is_unreachable():
    supervisor = supervise(Store())
    observe(supervisor, 1)
    supervisor._handle_message(LeasesClaimed(1, leases(1, start_in=timedelta(seconds=60))))
    observe(supervisor, 180)
    assert not supervisor._find_stuck()
    observe(supervisor, 20)
    assert supervisor._find_stuck()
    supervisor._can_extend = False
    assert not supervisor._find_stuck()
