import asyncio

from shoal.core.tasks import watched


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
