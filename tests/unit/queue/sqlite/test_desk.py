"""The thread behind a queue: what it takes together, what it leaves out, and how it ends."""

import asyncio
import threading

import pytest

from shoal.core.errors import QueueError
from shoal.queue.sqlite.desk import MOST_AT_ONCE, Desk


class Recorder:
    """A clerk that notes which calls were served together."""

    def __init__(self):
        self.groups, self.closed = [], False

    def open(self):
        return None

    def serve(self, store, calls):
        self.groups.append(len(calls))
        for call in calls:
            call.result = call.act(store)

    def close(self, store):
        self.closed = True


@pytest.fixture
def clerk():
    return Recorder()


@pytest.fixture
async def desk(clerk):
    desk = Desk(clerk)
    await desk.open()
    yield desk
    await desk.close()


@pytest.fixture
async def hold(desk):
    """Keep the thread busy until the returned function is called."""
    free, busy = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(store):
        loop.call_soon_threadsafe(busy.set)
        free.wait()

    holding = asyncio.create_task(desk.call(wait))
    await busy.wait()
    yield free.set
    free.set()
    await holding


async def posted(calls):
    """Begin calls, and return when they lie in the thread's inbox."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def test_calls_that_wait_together_are_served_together(desk, clerk, hold):
    tasks = await posted(desk.call(lambda store, n=n: n) for n in range(5))
    hold()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert clerk.groups == [1, 5]


async def test_a_group_has_an_end(desk, clerk, hold):
    tasks = await posted(desk.call(lambda store: None) for _ in range(MOST_AT_ONCE + 1))
    hold()
    await asyncio.gather(*tasks)
    assert clerk.groups == [1, MOST_AT_ONCE, 1]


async def test_a_call_whose_caller_has_gone_is_not_made(desk, clerk, hold):
    made = []
    (task,) = await posted([desk.call(lambda store: made.append(1))])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    hold()
    await desk.call(lambda store: None)
    assert made == []


async def test_a_clerk_that_breaks_down_answers_all_the_same(desk, clerk):
    def fail(store):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await desk.call(fail)
    assert await desk.call(lambda store: "still here") == "still here"


async def test_closing_finishes_what_was_asked_before(desk, clerk, hold):
    tasks = await posted([desk.call(lambda store: "done"), desk.close()])
    hold()
    assert await asyncio.gather(*tasks) == ["done", None]
    assert clerk.closed


async def test_closing_twice_is_closing_once_and_a_closed_desk_says_so(desk):
    await asyncio.gather(desk.close(), desk.close())
    await desk.close()
    with pytest.raises(QueueError, match="closed"):
        await desk.call(lambda store: None)


async def test_an_opening_that_fails_raises_and_leaves_no_thread():
    class Broken(Recorder):
        def open(self):
            raise QueueError("cannot open")

    desk = Desk(Broken())
    with pytest.raises(QueueError, match="cannot open"):
        await desk.open()
    await desk.close()
    assert not desk._thread.is_alive()


async def test_a_desk_that_was_never_opened_can_be_closed(clerk):
    await Desk(clerk).close()
