import asyncio

import pytest

from shoal.worker.room import Room


async def test_there_is_room_until_the_limit_is_reached():
    room = Room(100)
    await room.take(1, 60)
    await room.take(2, 40)
    assert room.used == 100


async def test_who_comes_too_late_waits_until_others_have_given_back():
    room = Room(100)
    await room.take(1, 60)
    waiting = asyncio.create_task(room.take(2, 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    room.give(1)
    await asyncio.wait_for(waiting, 1)
    assert room.used == 60


async def test_the_oldest_always_goes_on_so_that_nobody_waits_for_ever():
    room = Room(100)
    await room.take(1, 60)
    await room.take(2, 40)
    younger = asyncio.create_task(room.take(2, 40))
    await asyncio.sleep(0)
    await asyncio.wait_for(room.take(1, 500), 1)
    assert not younger.done()
    room.give(1)
    await asyncio.wait_for(younger, 1)


async def test_a_page_that_is_given_up_leaves_its_room():
    room = Room(100)
    await room.take(1, 100)
    given_up = asyncio.create_task(room.take(2, 50))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    room.give(2)
    room.give(2)
    assert room.used == 100
