import asyncio

import pytest

from shoal.core.tasks import watched
from shoal.worker import background
from shoal.worker.background import Background


async def for_ever():
    await asyncio.Event().wait()


async def fails():
    raise RuntimeError("boom")


async def test_what_the_main_task_returns_is_returned_and_the_others_are_ended():
    here = Background()
    other = here.start(for_ever())
    assert await here.run(asyncio.sleep(0, "done")) == "done"
    assert other.cancelled()


async def test_the_error_of_a_background_task_ends_all_of_it_and_names_the_task():
    here = Background()
    other = here.start(for_ever())
    here.start(fails(), "settling")
    with pytest.raises(RuntimeError, match="boom") as caught:
        await asyncio.wait_for(here.run(for_ever()), 5)
    assert other.cancelled() and "settling" in caught.value.__notes__[0]


async def test_the_error_of_the_main_task_ends_the_others():
    here = Background()
    other = here.start(for_ever())
    with pytest.raises(RuntimeError, match="boom"):
        await here.run(fails())
    assert other.cancelled()


async def test_a_task_that_is_cancelled_is_no_failure():
    here = Background()
    here.start(for_ever()).cancel()
    assert await here.run(asyncio.sleep(0.01, "done")) == "done"


async def test_a_task_that_does_not_let_itself_be_cancelled_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(background, "CLOSE_TIMEOUT", 0.01)
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


async def test_whoever_is_cancelled_ends_all_of_it():
    here = Background()
    other = here.start(for_ever())
    running = asyncio.create_task(here.run(for_ever()))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert other.cancelled()


async def test_a_task_of_another_part_that_is_watched_ends_it_too():
    here = Background()
    other = here.start(for_ever())

    async def main():
        watched(asyncio.create_task(fails()))
        await for_ever()

    with pytest.raises(RuntimeError, match="boom"):
        await asyncio.wait_for(here.run(main()), 5)
    assert other.cancelled() and asyncio.get_running_loop().get_exception_handler() is None
