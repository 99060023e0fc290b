import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from shoal.core.errors import (
    InvalidItem,
    QueueError,
    QueueFull,
    QueueRefused,
    QueueUnavailable,
)
from shoal.core.model import SECOND, Bury, Done, Fate
from shoal.worker import queue_retry, settlements
from shoal.worker.settlements import BATCH, Settlements
from tests.unit.builders import make_lease


def done(number):
    lease = make_lease(task_id=f"{number:032x}", deadline_in=SECOND)
    return Done(lease, items=[number])


class Recorder:
    """A fake queue: it records outcomes, unless it is set to fail."""

    def __init__(self):
        self.batches, self.failures = [], []

    async def settle(self, outcomes):
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if any(isinstance(outcome, Done) and outcome.items == ["bad"] for outcome in outcomes):
            raise InvalidItem("bad", "it is not JSON")
        self.batches.append(list(outcomes))
        return [Fate.ACCEPTED] * len(outcomes)


@pytest.fixture
async def batcher(monkeypatch):
    monkeypatch.setattr(queue_retry, "FIRST_WAIT", 0.001)  # before the batcher reads it
    queue, settled = Recorder(), []
    batcher = Settlements(queue, lambda outcomes, fates: settled.extend(outcomes))
    batcher.queue, batcher.settled = queue, settled
    running = asyncio.create_task(batcher.run())
    yield batcher
    batcher.close()
    await asyncio.wait_for(running, 5)


async def close(batcher):
    """Close the settlements and wait until everything is settled."""
    batcher.close()
    async with asyncio.timeout(5):
        while len(batcher):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)


async def test_outcomes_that_arrive_together_are_settled_in_one_batch(batcher):
    for number in range(10):
        batcher.put(done(number))
    await close(batcher)
    assert [len(batch) for batch in batcher.queue.batches] == [10]


async def test_what_belongs_to_outcomes_is_stored_before_them():
    seen, queue = [], Recorder()

    async def store():
        seen.append(len(queue.batches))

    settling = Settlements(queue, lambda outcomes, fates: None, before=store)
    running = asyncio.create_task(settling.run())
    settling.put(done(1))
    settling.close()
    await running
    assert seen == [0] and len(queue.batches) == 1


async def test_a_full_batch_does_not_wait_for_more(batcher, monkeypatch):
    monkeypatch.setattr(settlements, "LINGER", 100.0)
    for number in range(BATCH):
        batcher.put(done(number))
    async with asyncio.timeout(5):
        while not batcher.settled:
            await asyncio.sleep(0.001)


async def test_an_urgent_outcome_does_not_wait(batcher, monkeypatch):
    monkeypatch.setattr(settlements, "LINGER", 100.0)
    batcher.urgent = True
    batcher.put(done(1))
    async with asyncio.timeout(5):
        while not batcher.settled:
            await asyncio.sleep(0.001)


async def test_an_outcome_that_cannot_be_stored_is_buried_and_costs_no_other(batcher):
    bad = done(1)
    msgspec.structs.force_setattr(bad, "items", ["bad"])
    for outcome in (done(0), bad, done(2)):
        batcher.put(outcome)
    await close(batcher)
    kinds = {outcome.lease.task_id[-1]: type(outcome) for outcome in batcher.settled}
    assert kinds == {"0": Done, "1": Bury, "2": Done}


async def test_settling_is_retried_while_the_server_is_unreachable(batcher):
    batcher.queue.failures = [QueueUnavailable("db", "refused")] * 3
    batcher.put(done(1))
    await close(batcher)
    assert len(batcher.settled) == 1


async def test_outcomes_do_not_pile_up_without_bound(batcher):
    for number in range(20 * BATCH):
        batcher.put(done(number))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await batcher.wait_for_capacity()
    await close(batcher)
    await asyncio.wait_for(batcher.wait_for_capacity(), 1)


def unknown():
    return QueueError("The queue failed: XX000")


@pytest.mark.parametrize("error", [unknown(), RuntimeError("boom"), QueueFull("db", "disk")])
async def test_a_single_error_loses_nothing(batcher, error):
    batcher.queue.failures = [error]
    for number in range(10):
        batcher.put(done(number))
    await close(batcher)
    assert len(batcher.settled) == 10 and all(isinstance(one, Done) for one in batcher.settled)


async def test_a_final_error_is_raised_at_once():
    async def settle(outcomes):
        raise QueueRefused("db", "password")

    batcher = Settlements(SimpleNamespace(settle=settle), lambda outcomes, fates: None)
    batcher.put(done(1))
    with pytest.raises(QueueRefused):
        await asyncio.wait_for(batcher.run(), 5)


async def test_batches_get_smaller_when_the_store_times_out(batcher):
    settle = batcher.queue.settle

    async def slowly(outcomes):
        if len(outcomes) > 10:
            raise QueueUnavailable("db", "timeout")
        return await settle(outcomes)

    batcher.queue.settle = slowly
    for number in range(200):
        batcher.put(done(number))
    await close(batcher)
    assert len(batcher.settled) == 200


async def test_a_stop_ends_the_wait_for_capacity(batcher):
    for number in range(20 * BATCH):
        batcher.put(done(number))
    waiting = asyncio.create_task(batcher.wait_for_capacity())
    await asyncio.sleep(0)
    batcher.stop()
    await asyncio.wait_for(waiting, 1)
    batcher.put(done(0))
    await asyncio.wait_for(batcher.wait_for_capacity(), 1)
