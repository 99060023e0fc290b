import asyncio

import pytest

from shoal.worker.slots import HORIZON, SLOW, ConcurrencySlots


class Bench:
    """Slots, and whether one became free."""

    def __init__(self, at_once=2, slow_requests=0):
        self.freed = asyncio.Event()
        self.slots = ConcurrencySlots(at_once, slow_requests, self.freed.set)

    async def until_freed(self):
        async with asyncio.timeout(100 * SLOW):
            await self.freed.wait()
        self.freed.clear()


async def test_a_slot_is_taken_until_its_task_ends():
    slots = Bench(at_once=2).slots
    slots.take(1)
    assert slots.is_free
    slots.take(2)
    assert slots.taken == 2 and not slots.is_free
    slots.leave(1)
    assert slots.taken == 1 and slots.is_free


async def test_a_request_to_a_slow_host_gives_its_slot_up_and_ends_without_it():
    bench = Bench(slow_requests=1)
    bench.slots.take(1)
    bench.slots.wait_for_host(1)
    await bench.until_freed()
    assert bench.slots.taken == 0
    bench.slots.leave(1)
    assert bench.slots.taken == 0


async def test_no_more_requests_than_allowed_give_their_slot_up():
    bench = Bench(at_once=3, slow_requests=1)
    for number in (1, 2, 3):
        bench.slots.take(number)
        bench.slots.wait_for_host(number)
    await bench.until_freed()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.slots.taken == 2
    bench.slots.leave(1)  # the slow one, so that the next may be
    await bench.until_freed()
    assert bench.slots.taken == 1


async def test_with_none_allowed_every_request_keeps_its_slot():
    bench = Bench(slow_requests=0)
    bench.slots.take(1)
    bench.slots.wait_for_host(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.slots.taken == 1


async def test_a_task_that_does_not_wait_for_its_host_keeps_its_slot():
    bench = Bench(slow_requests=9)
    bench.slots.take(1)
    bench.slots.take(2)
    bench.slots.wait_for_host(2)
    bench.slots.stop_waiting(2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.slots.taken == 2


async def test_a_slow_task_with_a_response_counts_again_and_waits_for_a_step_to_end():
    bench = Bench(at_once=1, slow_requests=2)
    bench.slots.take(1)
    bench.slots.wait_for_host(1)
    await bench.until_freed()
    bench.slots.take(2)
    await bench.slots.begin_step(2)
    coming = asyncio.create_task(bench.slots.begin_step(1))
    await asyncio.sleep(0)
    assert bench.slots.taken == 2 and not bench.slots.is_free and not coming.done()
    bench.slots.end_step(2)
    bench.slots.leave(2)
    async with asyncio.timeout(5):
        await coming
    assert bench.slots.taken == 1


async def test_a_task_that_is_cancelled_while_it_waits_for_its_step_is_skipped():
    slots = Bench(at_once=1).slots
    await slots.begin_step(1)
    gone, following = (asyncio.create_task(slots.begin_step(number)) for number in (2, 3))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    slots.end_step(2)  # it never began
    slots.end_step(1)
    async with asyncio.timeout(5):
        await following


async def test_the_longer_tasks_take_the_fewer_are_prefetched(monkeypatch):
    moment = 0.0
    monkeypatch.setattr("shoal.worker.slots._now", lambda: moment)
    quick, slow = ConcurrencySlots(4, 0, lambda: None), ConcurrencySlots(4, 0, lambda: None)
    assert quick.prefetch_limit(50) == 4, "nothing is known yet"
    quick.take(1)
    slow.take(1)
    moment = 0.01
    quick.leave(1)
    moment = 2 * HORIZON
    slow.leave(1)
    assert (quick.prefetch_limit(50), slow.prefetch_limit(50)) == (50, 2)


async def test_while_no_slot_becomes_free_nothing_is_prefetched(monkeypatch):
    slots, now = Bench(at_once=1).slots, 100.0
    monkeypatch.setattr("shoal.worker.slots._now", lambda: now)
    slots.take(1)
    assert not slots.is_stuck and slots.prefetch_limit(50) == 1
    now += HORIZON + 0.1
    assert slots.is_stuck and slots.prefetch_limit(50) == 0
    slots.leave(1)
    assert not slots.is_stuck
    slots.take(2)
    assert not slots.is_stuck
