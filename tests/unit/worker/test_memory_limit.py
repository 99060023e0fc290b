import asyncio

import pytest

from shoal.worker.slots import MemoryLimit


async def test_bytes_are_available_until_the_limit_is_reached():
    memory = MemoryLimit(100)
    await memory.reserve(1, 60)
    await memory.reserve(2, 40)
    assert memory.used == 100


async def test_a_page_over_the_limit_waits_until_others_are_released():
    memory = MemoryLimit(100)
    await memory.reserve(1, 60)
    waiting = asyncio.create_task(memory.reserve(2, 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    memory.release(1)
    await asyncio.wait_for(waiting, 1)
    assert memory.used == 60


async def test_the_oldest_page_always_goes_on_so_that_none_waits_for_ever():
    memory = MemoryLimit(100)
    await memory.reserve(1, 60)
    await memory.reserve(2, 40)
    younger = asyncio.create_task(memory.reserve(2, 40))
    await asyncio.sleep(0)
    await asyncio.wait_for(memory.reserve(1, 500), 1)
    assert not younger.done()
    memory.release(1)
    await asyncio.wait_for(younger, 1)


async def test_a_page_that_is_given_up_releases_its_bytes():
    memory = MemoryLimit(100)
    await memory.reserve(1, 100)
    given_up = asyncio.create_task(memory.reserve(2, 50))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    memory.release(2)
    memory.release(2)
    assert memory.used == 100
