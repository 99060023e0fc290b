"""The connection thread of a queue: which calls it batches, which it skips, and how it stops."""

import asyncio
import threading

import pytest

from shoal.core.errors import QueueError
from shoal.queue.sqlite.connection import MAX_BATCH, ConnectionThread


class Recorder:
    """A handler that records which calls were served together."""

    def __init__(self):
        self.groups, self.closed = [], False

    def open(self):
        return None

    def serve(self, store, calls):
        self.groups.append(len(calls))
        for call in calls:
            call.result = call.function(store)

    def close(self, store):
        self.closed = True


@pytest.fixture
def handler():
    return Recorder()


@pytest.fixture
async def thread(handler):
    thread = ConnectionThread(handler)
    await thread.open()
    yield thread
    await thread.close()


@pytest.fixture
async def hold(thread):
    """Keep the thread busy until the returned function is called."""
    free, busy = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(store):
        loop.call_soon_threadsafe(busy.set)
        free.wait()

    holding = asyncio.create_task(thread.call(wait))
    await busy.wait()
    yield free.set
    free.set()
    await holding


async def posted(calls):
    """Start calls, and return when they are in the thread's inbox."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def test_calls_that_wait_together_are_served_together(thread, handler, hold):
    tasks = await posted(thread.call(lambda store, n=n: n) for n in range(5))
    hold()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert handler.groups == [1, 5]


async def test_a_group_has_an_end(thread, handler, hold):
    tasks = await posted(thread.call(lambda store: None) for _ in range(MAX_BATCH + 1))
    hold()
    await asyncio.gather(*tasks)
    assert handler.groups == [1, MAX_BATCH, 1]


async def test_a_call_whose_caller_has_gone_is_not_made(thread, handler, hold):
    made = []
    (task,) = await posted([thread.call(lambda store: made.append(1))])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    hold()
    await thread.call(lambda store: None)
    assert made == []


async def test_a_handler_that_raises_fails_every_call(thread, handler):
    def fail(store):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await thread.call(fail)
    assert await thread.call(lambda store: "still here") == "still here"


async def test_closing_finishes_what_was_asked_before(thread, handler, hold):
    tasks = await posted([thread.call(lambda store: "done"), thread.close()])
    hold()
    assert await asyncio.gather(*tasks) == ["done", None]
    assert handler.closed


async def test_an_opening_that_fails_raises_and_leaves_no_thread():
    class Broken(Recorder):
        def open(self):
            raise QueueError("cannot open")

    thread = ConnectionThread(Broken())
    with pytest.raises(QueueError, match="cannot open"):
        await thread.open()
    await thread.close()
    assert not thread._thread.is_alive()
