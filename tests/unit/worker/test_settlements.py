import asyncio
from types import SimpleNamespace

import pytest

from shoal.core.errors import InvalidItem, QueueError, QueueFull, QueueRefused, QueueUnavailable
from shoal.core.model import SECOND, ZERO, Bury, Done, Fate, Lease, Task
from shoal.worker import retrying, settlements
from shoal.worker.settlements import BATCH, Settlements


def done(number):
    lease = Lease(
        run_id="r",
        task_id=f"{number:032x}",
        token=1,
        task=Task(),
        attempt=1,
        start_in=ZERO,
        deadline_in=SECOND,
    )
    return Done(lease, items=[number])


class Recorder:
    """Stands in for a queue: takes outcomes, unless it is told to fail."""

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
async def desk():
    queue, settled = Recorder(), []
    desk = Settlements(queue, lambda outcomes, fates: settled.extend(outcomes))
    desk.queue, desk.settled = queue, settled
    running = asyncio.create_task(desk.run())
    yield desk
    desk.close()
    await asyncio.wait_for(running, 5)


async def closed(desk):
    """Close the desk and wait until all is settled."""
    desk.close()
    async with asyncio.timeout(5):
        while len(desk):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)


async def test_outcomes_that_come_together_are_settled_together(desk):
    for number in range(10):
        desk.put(done(number))
    await closed(desk)
    assert [len(batch) for batch in desk.queue.batches] == [10]


async def test_a_full_batch_does_not_wait_for_more(desk, monkeypatch):
    monkeypatch.setattr(settlements, "LINGER", 100.0)
    for number in range(BATCH):
        desk.put(done(number))
    async with asyncio.timeout(5):
        while not desk.settled:
            await asyncio.sleep(0.001)


async def test_a_lone_outcome_in_a_hurry_does_not_wait(desk, monkeypatch):
    monkeypatch.setattr(settlements, "LINGER", 100.0)
    desk.hurry = True
    desk.put(done(1))
    async with asyncio.timeout(5):
        while not desk.settled:
            await asyncio.sleep(0.001)


async def test_an_outcome_that_cannot_be_stored_is_buried_and_costs_no_other(desk):
    bad = done(1)
    object.__setattr__(bad, "items", ["bad"])
    for outcome in (done(0), bad, done(2)):
        desk.put(outcome)
    await closed(desk)
    kinds = {outcome.lease.task_id[-1]: type(outcome) for outcome in desk.settled}
    assert kinds == {"0": Done, "1": Bury, "2": Done}


async def test_a_server_that_is_away_is_asked_again(desk, monkeypatch):
    monkeypatch.setattr(retrying, "FIRST_WAIT", 0.001)
    desk.queue.failures = [QueueUnavailable("db", "refused")] * 3
    desk.put(done(1))
    await closed(desk)
    assert len(desk.settled) == 1


async def test_outcomes_do_not_pile_up_without_bound(desk):
    for number in range(20 * BATCH):
        desk.put(done(number))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await desk.room()
    await closed(desk)
    await asyncio.wait_for(desk.room(), 1)


def unknown():
    return QueueError("The queue failed: XX000")


@pytest.mark.parametrize("error", [unknown(), RuntimeError("boom"), QueueFull("db", "disk")])
async def test_an_error_that_comes_once_costs_nothing(desk, error):
    desk.queue.failures = [error]
    for number in range(10):
        desk.put(done(number))
    await closed(desk)
    assert len(desk.settled) == 10 and all(isinstance(one, Done) for one in desk.settled)


async def test_an_error_that_no_try_mends_is_raised_at_once():
    async def settle(outcomes):
        raise QueueRefused("db", "password")

    desk = Settlements(SimpleNamespace(settle=settle), lambda outcomes, fates: None)
    desk.put(done(1))
    with pytest.raises(QueueRefused):
        await asyncio.wait_for(desk.run(), 5)


async def test_a_store_that_times_out_on_many_outcomes_is_given_fewer(desk, monkeypatch):
    monkeypatch.setattr(retrying, "FIRST_WAIT", 0.001)
    settle = desk.queue.settle

    async def slowly(outcomes):
        if len(outcomes) > 10:
            raise QueueUnavailable("db", "it does not answer")
        return await settle(outcomes)

    desk.queue.settle = slowly
    for number in range(200):
        desk.put(done(number))
    await closed(desk)
    assert len(desk.settled) == 200


async def test_who_waits_for_room_is_let_go_by_a_stop(desk):
    for number in range(20 * BATCH):
        desk.put(done(number))
    waiting = asyncio.create_task(desk.room())
    await asyncio.sleep(0)
    desk.stop()
    await asyncio.wait_for(waiting, 1)
    desk.put(done(0))
    await asyncio.wait_for(desk.room(), 1)
