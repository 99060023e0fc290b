"""Timeouts."""

import asyncio
import time
from datetime import timedelta

import pytest

from shoal.fetch.deadlines import CHECK_INTERVAL_SECONDS, Deadlines

SOON, LATER = timedelta(seconds=0.05), timedelta(seconds=60)


async def test_what_takes_too_long_is_ended():
    started = time.monotonic()
    with pytest.raises(TimeoutError), Deadlines().within(SOON):
        await asyncio.sleep(10)
    assert 0.05 <= time.monotonic() - started < 1
    assert asyncio.current_task().cancelling() == 0


async def test_what_ends_in_time_is_left_alone():
    deadlines = Deadlines()
    with deadlines.within(SOON):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05 + 3 * CHECK_INTERVAL_SECONDS)
    assert deadlines._timer is None


async def test_many_end_each_at_its_own_time():
    deadlines, ended = Deadlines(), []

    async def wait(seconds):
        try:
            with deadlines.within(timedelta(seconds=seconds)):
                await asyncio.sleep(10)
        except TimeoutError:
            ended.append(seconds)

    await asyncio.gather(*(wait(seconds) for seconds in (0.4, 0.1, 0.25)))
    assert ended == [0.1, 0.25, 0.4]


async def test_a_task_that_is_cancelled_is_cancelled_and_not_late():
    async def work():
        with Deadlines().within(LATER):
            await asyncio.sleep(10)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_late_and_cancelled_at_once_is_cancelled():
    deadlines = Deadlines()

    async def work():
        with deadlines.within(SOON):
            await asyncio.sleep(10)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    (deadline,) = deadlines._watched
    deadline.expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_inside_another_ends_only_its_own_block():
    deadlines = Deadlines()
    with deadlines.within(LATER):
        with pytest.raises(TimeoutError), deadlines.within(SOON):
            await asyncio.sleep(10)
        await asyncio.sleep(0.01)


async def test_the_outer_deadline_ends_the_inner_block_too():
    deadlines = Deadlines()
    with pytest.raises(TimeoutError), deadlines.within(SOON), deadlines.within(LATER):
        await asyncio.sleep(10)
    assert asyncio.current_task().cancelling() == 0
    assert not deadlines._watched


async def test_it_fits_inside_the_standard_kind():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            with Deadlines().within(LATER):
                await asyncio.sleep(10)
    assert asyncio.current_task().cancelling() == 0


async def test_parts_that_are_not_counted_may_overlap():
    deadlines = Deadlines()

    async def wait(deadline, seconds):
        with deadline.suspend():
            await asyncio.sleep(seconds)

    with deadlines.within(2 * SOON) as deadline:
        await asyncio.gather(wait(deadline, 0.2), wait(deadline, 0.4))
    assert 0.4 <= deadline.suspended < 0.6
    with pytest.raises(TimeoutError), deadlines.within(SOON) as deadline:
        await asyncio.gather(wait(deadline, 0.01), wait(deadline, 0.02))
        await asyncio.sleep(10)


def test_a_loop_that_ended_early_does_not_stop_the_watch_in_the_next():
    deadlines = Deadlines()

    async def hang_on():
        deadlines.within(LATER).__enter__()

    async def wait():
        with deadlines.within(SOON):
            await asyncio.sleep(10)

    asyncio.run(hang_on())
    with pytest.raises(TimeoutError):
        asyncio.run(wait())
