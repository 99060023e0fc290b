import asyncio
import logging

import pytest

from shoal.core.events import STARTS_LATE, event_of
from shoal.core.model import MINUTE, SECOND, ZERO, Task
from shoal.core.tasks import exact_time
from shoal.worker.attempts import TaskWaits
from shoal.worker.prefetch import RECENT_SPANS, ScheduledLease
from shoal.worker.scheduler import Scheduler
from shoal.worker.slots import SLOW
from tests.unit.builders import make_lease


class Bench:
    """What tasks wait for, and whether a slot became free."""

    def __init__(self, concurrency=2, max_slow=0, memory=1 << 20):
        self.freed = asyncio.Event()
        scheduler = Scheduler(lease=MINUTE, gap=ZERO, concurrency=concurrency)
        scheduler.slots.max_slow = max_slow
        self.waits, self.slots = TaskWaits(scheduler, self.freed.set, max_bytes=memory), scheduler.slots

    def take(self, number):
        self.slots.take(number, exact_time())

    def leave(self, number):
        self.slots.leave(number, exact_time())

    async def until_freed(self):
        async with asyncio.timeout(100 * SLOW):
            await self.freed.wait()
        self.freed.clear()


async def test_a_request_to_a_slow_host_gives_its_slot_up_and_ends_without_it():
    bench = Bench(max_slow=1)
    bench.take(1)
    bench.waits.wait_for_host(1)
    await bench.until_freed()
    assert bench.slots.taken == 0
    bench.leave(1)
    assert bench.slots.taken == 0


async def test_no_more_requests_than_allowed_give_their_slot_up():
    bench = Bench(concurrency=3, max_slow=1)
    for number in (1, 2, 3):
        bench.take(number)
        bench.waits.wait_for_host(number)
    await bench.until_freed()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.slots.taken == 2
    bench.leave(1)  # the slow one, so that the next may be
    await bench.until_freed()
    assert bench.slots.taken == 1


async def test_a_slow_task_with_a_response_counts_again_and_waits_for_a_step_to_end():
    bench = Bench(concurrency=1, max_slow=2)
    bench.take(1)
    bench.waits.wait_for_host(1)
    await bench.until_freed()
    bench.take(2)
    await bench.waits.begin_step(2)
    coming = asyncio.create_task(bench.waits.begin_step(1))
    await asyncio.sleep(0)
    assert bench.slots.taken == 2 and not bench.slots.is_free and not coming.done()
    bench.waits.end_step(2)
    bench.leave(2)
    async with asyncio.timeout(5):
        await coming
    assert bench.slots.taken == 1


async def test_a_task_that_is_cancelled_while_it_waits_for_its_step_is_skipped():
    waits = Bench(concurrency=1).waits
    await waits.begin_step(1)
    gone, following = (asyncio.create_task(waits.begin_step(number)) for number in (2, 3))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    waits.end_step(2)  # it never began
    waits.end_step(1)
    async with asyncio.timeout(5):
        await following


async def test_bytes_are_available_until_the_limit_is_reached():
    memory = Bench(memory=100).waits
    await memory.reserve_memory(1, 60)
    await memory.reserve_memory(2, 40)
    assert memory.memory.used == 100


async def test_a_page_over_the_limit_waits_until_others_are_released():
    memory = Bench(memory=100).waits
    await memory.reserve_memory(1, 60)
    waiting = asyncio.create_task(memory.reserve_memory(2, 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    memory.release_memory(1)
    await asyncio.wait_for(waiting, 1)
    assert memory.memory.used == 60


async def test_the_oldest_page_always_goes_on_so_that_none_waits_for_ever():
    memory = Bench(memory=100).waits
    await memory.reserve_memory(1, 60)
    await memory.reserve_memory(2, 40)
    younger = asyncio.create_task(memory.reserve_memory(2, 40))
    await asyncio.sleep(0)
    await asyncio.wait_for(memory.reserve_memory(1, 500), 1)
    assert not younger.done()
    memory.release_memory(1)
    await asyncio.wait_for(younger, 1)


async def test_a_page_that_is_given_up_releases_its_bytes():
    memory = Bench(memory=100).waits
    await memory.reserve_memory(1, 100)
    given_up = asyncio.create_task(memory.reserve_memory(2, 50))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    memory.release_memory(2)
    memory.release_memory(2)
    assert memory.memory.used == 100


async def test_a_worker_that_is_late_more_often_than_not_says_so_once_a_minute(monkeypatch, caplog):
    scheduler = Scheduler(lease=MINUTE, gap=SECOND, concurrency=2)
    waits, clock = TaskWaits(scheduler), 1000.0
    monkeypatch.setattr("shoal.worker.attempts.exact_time", lambda: clock)
    with caplog.at_level(logging.WARNING):
        for number in range(3 * RECENT_SPANS):
            lease = a_lease(number)
            assert waits.try_request(ScheduledLease(lease, due=clock))
            clock += 1
        assert not caplog.records
        sent = 0
        for number in range(60 + RECENT_SPANS):
            sent += waits.try_request(ScheduledLease(a_lease(number), due=clock - 0.2))
            clock += 1
    assert sent > 60
    said = [record for record in caplog.records if event_of(record) == STARTS_LATE]
    assert len(said) == 2
    assert "late more often than not (now by 200 ms)" in said[0].getMessage()


def a_lease(number):
    task = Task(url=f"http://h{number}.example/")
    return make_lease(task, task_id=f"{number:032x}")
