import asyncio

import pytest
import uvloop

from shoal.core import tasks
from shoal.core.errors import DutyFailed
from shoal.core.tasks import exact_time, restarted, supervise, watched


async def fails():
    raise RuntimeError("boom")


async def test_the_error_of_a_task_that_nobody_awaits_is_reported_at_once():
    loop, reports = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    task = watched(asyncio.create_task(fails()))
    await asyncio.wait([task])
    assert [str(error) for error in reports] == ["boom"]


async def test_a_task_that_ends_well_or_is_cancelled_is_not_reported():
    loop, reports = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda loop, context: reports.append(context))
    well, ended = (
        watched(asyncio.create_task(asyncio.sleep(0))),
        watched(asyncio.create_task(asyncio.sleep(9))),
    )
    ended.cancel()
    await asyncio.wait([well, ended])
    assert reports == []


async def test_supervised_work_is_cancelled_and_the_task_that_failed_is_named():
    cancelled = []

    async def work():
        watched(asyncio.create_task(fails()))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(DutyFailed, match="fails failed: RuntimeError: boom"):
        await supervise(work())
    assert cancelled


async def test_work_that_swallows_its_cancellation_does_not_hide_the_failure():
    async def work():
        watched(asyncio.create_task(fails()))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "all is well"

    with pytest.raises(DutyFailed, match="boom"):
        await supervise(work())


async def test_supervised_work_that_is_cancelled_from_outside_stays_cancelled():
    task = asyncio.create_task(supervise(asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await supervise(asyncio.sleep(0, "done")) == "done"


async def test_a_background_task_that_fails_is_reported_and_restarted(monkeypatch):
    monkeypatch.setattr(tasks, "MIN_WAIT", 0.01)
    said, tries = [], []

    async def duty():
        tries.append(True)
        if len(tries) < 3:
            await fails()

    async with asyncio.timeout(10):
        await restarted("Counting", duty, said.append)
    assert said == [
        "Counting failed: RuntimeError: boom. Trying again in 0.01 s.",
        "Counting failed: RuntimeError: boom. Trying again in 0.02 s.",
    ]


def test_the_exact_time_tells_moments_within_one_millisecond_apart():
    async def moments():
        end = exact_time() + 0.005
        while (now := exact_time()) < end:
            yield now

    async def count():
        return len({moment async for moment in moments()})

    assert uvloop.run(count()) > 10
