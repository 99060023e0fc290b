import asyncio

import pytest

from shoal.worker.places import HORIZON, SLOW, Places


class Bench:
    """Places, and whether one was free again."""

    def __init__(self, at_once=2, slow_requests=0):
        self.freed = asyncio.Event()
        self.places = Places(at_once, slow_requests, self.freed.set)

    async def until_freed(self):
        async with asyncio.timeout(100 * SLOW):
            await self.freed.wait()
        self.freed.clear()


async def test_a_place_is_taken_until_its_task_ends():
    places = Bench(at_once=2).places
    places.take(1)
    assert places.is_free
    places.take(2)
    assert places.taken == 2 and not places.is_free
    places.leave(1)
    assert places.taken == 1 and places.is_free


async def test_a_request_to_a_slow_host_gives_its_place_up_and_ends_without_it():
    bench = Bench(slow_requests=1)
    bench.places.take(1)
    bench.places.wait_for_host(1)
    await bench.until_freed()
    assert bench.places.taken == 0
    bench.places.leave(1)
    assert bench.places.taken == 0


async def test_no_more_requests_than_allowed_give_their_place_up():
    bench = Bench(at_once=3, slow_requests=1)
    for number in (1, 2, 3):
        bench.places.take(number)
        bench.places.wait_for_host(number)
    await bench.until_freed()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.places.taken == 2
    bench.places.leave(1)  # the slow one, so that the next may be
    await bench.until_freed()
    assert bench.places.taken == 1


async def test_with_none_allowed_every_request_keeps_its_place():
    bench = Bench(slow_requests=0)
    bench.places.take(1)
    bench.places.wait_for_host(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.places.taken == 1


async def test_a_task_that_does_not_wait_for_its_host_keeps_its_place():
    bench = Bench(slow_requests=9)
    bench.places.take(1)
    bench.places.take(2)
    bench.places.wait_for_host(2)
    bench.places.stop_waiting(2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SLOW):
            await bench.freed.wait()
    assert bench.places.taken == 2


async def test_a_slow_task_that_comes_back_counts_again_and_waits_for_a_step_to_end():
    bench = Bench(at_once=1, slow_requests=2)
    bench.places.take(1)
    bench.places.wait_for_host(1)
    await bench.until_freed()
    bench.places.take(2)
    await bench.places.run_step(2)
    coming = asyncio.create_task(bench.places.run_step(1))
    await asyncio.sleep(0)
    assert bench.places.taken == 2 and not bench.places.is_free and not coming.done()
    bench.places.end_step(2)
    bench.places.leave(2)
    async with asyncio.timeout(5):
        await coming
    assert bench.places.taken == 1


async def test_one_that_is_cancelled_while_it_waits_for_its_step_is_passed_over():
    places = Bench(at_once=1).places
    await places.run_step(1)
    gone, following = (asyncio.create_task(places.run_step(number)) for number in (2, 3))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    places.end_step(2)  # it never began
    places.end_step(1)
    async with asyncio.timeout(5):
        await following


async def test_the_longer_tasks_take_the_fewer_are_held_ahead(monkeypatch):
    moment = 0.0
    monkeypatch.setattr("shoal.worker.places._now", lambda: moment)
    quick, slow = Places(4, 0, lambda: None), Places(4, 0, lambda: None)
    assert quick.ahead(50) == 4, "nothing is known yet"
    quick.take(1)
    slow.take(1)
    moment = 0.01
    quick.leave(1)
    moment = 2 * HORIZON
    slow.leave(1)
    assert (quick.ahead(50), slow.ahead(50)) == (50, 2)


async def test_while_no_place_becomes_free_nothing_is_held_ahead(monkeypatch):
    places, now = Bench(at_once=1).places, 100.0
    monkeypatch.setattr("shoal.worker.places._now", lambda: now)
    places.take(1)
    assert not places.is_stuck and places.ahead(50) == 1
    now += HORIZON + 0.1
    assert places.is_stuck and places.ahead(50) == 0
    places.leave(1)
    assert not places.is_stuck
    places.take(2)
    assert not places.is_stuck
