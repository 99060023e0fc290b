import asyncio
from datetime import timedelta

import pytest

from shoal.core.tasks import watched
from shoal.worker import background
from shoal.worker.background import Background


async def run_forever():
    await asyncio.Event().wait()


async def fail():
    raise RuntimeError("boom")


async def test_the_result_of_the_main_task_is_returned_and_the_others_are_cancelled():
    here = Background()
    other = here.start(run_forever())
    assert await here.run(asyncio.sleep(0, "done")) == "done"
    assert other.cancelled()


async def test_the_error_of_a_background_task_ends_all_of_it_and_names_the_task():
    here = Background()
    other = here.start(run_forever())
    here.start(fail(), "settling")
    with pytest.raises(RuntimeError, match="boom") as caught:
        await asyncio.wait_for(here.run(run_forever()), 5)
    assert other.cancelled() and "settling" in caught.value.__notes__[0]


async def test_the_error_of_the_main_task_ends_the_others():
    here = Background()
    other = here.start(run_forever())
    with pytest.raises(RuntimeError, match="boom"):
        await here.run(fail())
    assert other.cancelled()


async def test_a_task_that_is_cancelled_is_no_failure():
    here = Background()
    here.start(run_forever()).cancel()
    assert await here.run(asyncio.sleep(0.01, "done")) == "done"


async def test_a_task_that_ignores_its_cancellation_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(background, "CLOSE_TIMEOUT", timedelta(seconds=0.01))
    released = asyncio.Event()

    async def stubborn():
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    here = Background()
    task = here.start(stubborn())
    await asyncio.sleep(0)
    assert await asyncio.wait_for(here.run(asyncio.sleep(0, "done")), 5) == "done"
    released.set()
    await task


async def test_a_cancellation_ends_all_tasks():
    here = Background()
    other = here.start(run_forever())
    running = asyncio.create_task(here.run(run_forever()))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert other.cancelled()


async def test_a_watched_task_of_another_module_that_fails_ends_all_tasks_too():
    here = Background()
    other = here.start(run_forever())

    async def main():
        watched(asyncio.create_task(fail()))
        await run_forever()

    with pytest.raises(RuntimeError, match="boom"):
        await asyncio.wait_for(here.run(main()), 5)
    assert other.cancelled() and asyncio.get_running_loop().get_exception_handler() is None
