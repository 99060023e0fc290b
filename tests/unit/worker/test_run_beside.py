import asyncio

import pytest

from shoal.core.errors import DutyFailed
from shoal.worker.background import run_beside


async def test_a_task_that_fails_ends_the_block_and_is_named():
    async def broken():
        raise TypeError("no such thing")

    with pytest.raises(DutyFailed, match="sweeping failed: TypeError: no such thing"):
        async with run_beside("sweeping", broken()):
            await asyncio.Event().wait()


async def test_a_task_that_fails_while_the_block_ends_is_reported_all_the_same():
    async def broken():
        raise TypeError("too late")

    with pytest.raises(DutyFailed):
        async with run_beside("sweeping", broken()):
            await asyncio.sleep(0)


async def test_a_task_that_fails_when_it_is_cancelled_leaves_no_cancellation_behind():
    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TypeError("in the midst") from None

    with pytest.raises(DutyFailed):
        async with run_beside("sweeping", stubborn()):
            await asyncio.sleep(0)
    assert not asyncio.current_task().cancelling()
    await asyncio.sleep(0)  # nothing is left to be raised


async def test_a_task_ends_with_its_block():
    ended = asyncio.Event()

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with run_beside("sweeping", endless()):
        await asyncio.sleep(0)
    assert ended.is_set()


async def test_an_error_of_the_block_and_a_cancellation_pass_through():
    async def endless():
        await asyncio.Event().wait()

    with pytest.raises(KeyError):
        async with run_beside("sweeping", endless()):
            raise KeyError("price")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), run_beside("sweeping", endless()):
            await asyncio.Event().wait()
