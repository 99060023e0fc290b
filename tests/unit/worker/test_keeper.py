"""What a keeper does while its worker works, as far as it needs no process."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE, ZERO, Lease, Task
from shoal.worker import keeper as keeping
from shoal.worker.keeper import Keeper, StepLimit
from shoal.worker.line import Gone, Order, Took
from shoal.worker.liveness import LOOK_EVERY, Look

LIMITS = {"page": StepLimit(MINUTE, 3, timedelta(seconds=100))}


class Store:
    """A queue that fails as often as it is told to."""

    def __init__(self, *errors):
        self.errors, self.extended = list(errors), 0

    async def extend(self, leases, *, lease):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.extended += 1


def keeper(queue, lease=30):
    order = Order(
        queue="", run_id="r", worker_id="w", scraper="s", lease=timedelta(seconds=lease), memory=1 << 20
    )
    return Keeper(queue, order, None, limits=LIMITS)


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


async def test_an_extension_that_failed_is_tried_again_at_once_and_then_less_often(monkeypatch):
    slept, enough = [], 9

    async def sleep(seconds):
        slept.append(seconds)
        if len(slept) == enough:
            raise asyncio.CancelledError

    monkeypatch.setattr(keeping.asyncio, "sleep", sleep)
    queue = Store(None, QueueError("away"), QueueError("full"), *[QueueError("away")] * 3, None)
    with pytest.raises(asyncio.CancelledError):
        await keeper(queue)._extend()
    assert slept == [10, 10, 0.2, 0.4, 0.8, 1.6, 2.0, 10, 10]


def watched(kept, seconds):
    """Let the keeper look on while the loop turns."""
    for _ in range(round(seconds / LOOK_EVERY)):
        last = kept._liveness._last
        now, beats = (last.at, last.beats) if last else (0.0, 0)
        kept._liveness.judge(Look(now + LOOK_EVERY, beats + 1, []))


def test_a_task_that_does_not_end_though_the_loop_turns_is_stuck_when_nothing_else_is_settled():
    kept = keeper(Store())
    watched(kept, 1)
    kept._hear(Took(1, leases(3)))
    watched(kept, 120)
    assert not kept._stuck()
    kept._hear(Gone([1]))
    watched(kept, 120)
    assert not kept._stuck(), "one was settled meanwhile"
    watched(kept, 20)
    assert kept._stuck() == [2, 3]


def test_a_task_is_not_stuck_before_its_start_nor_while_the_queue_is_away():
    kept = keeper(Store())
    watched(kept, 1)
    kept._hear(Took(1, leases(1, start_in=timedelta(seconds=60))))
    watched(kept, 180)
    assert not kept._stuck()
    watched(kept, 20)
    assert kept._stuck()
    kept._can_extend = False
    assert not kept._stuck()
