import asyncio

from shoal.worker.places import SLOW, Places


class Bench:
    """Places, and how often one was free again."""

    def __init__(self, held_up=()):
        self.freed = asyncio.Event()
        self.places = Places(set(held_up).__contains__, self.freed.set)


async def test_a_place_is_taken_until_its_task_ends():
    places = Bench().places
    places.take(1)
    places.take(2)
    assert places.taken == 2
    places.leave(1)
    assert places.taken == 1


async def test_a_task_that_takes_its_time_gives_its_place_up_and_ends_without_it():
    bench = Bench()
    bench.places.take(1)
    async with asyncio.timeout(20 * SLOW):
        await bench.freed.wait()
    assert bench.places.taken == 0
    bench.places.leave(1)
    assert bench.places.taken == 0


async def test_a_task_that_waits_for_something_of_the_worker_keeps_its_place():
    bench = Bench(held_up=[1])
    bench.places.take(1)
    bench.places.take(2)
    async with asyncio.timeout(20 * SLOW):
        await bench.freed.wait()
    assert bench.places.taken == 1
