"""How many calls of a process run at once on PostgreSQL."""

import asyncio

import pytest

from shoal.queue.postgres.connections import MAX_WAITING, GrowingTurns

HOUR = 3600.0


class Calls:
    """Calls that each last until they are let go."""

    def __init__(self, turns):
        self._turns, self._ends = turns, asyncio.Event()
        self.running = self.most = self.ended = 0

    async def call(self):
        async with self._turns:
            self.running += 1
            self.most = max(self.most, self.running)
            await self._ends.wait()
            self.running -= 1
            self.ended += 1

    async def start(self, count):
        """Start some, and return them once nothing moves any more."""
        tasks = [asyncio.create_task(self.call()) for _ in range(count)]
        for _ in range(10 * count):
            await asyncio.sleep(0)
        return tasks

    async def until_running(self, count):
        async with asyncio.timeout(10):
            while self.running < count:
                await asyncio.sleep(0.001)

    def end(self):
        self._ends.set()


async def test_calls_take_turns_on_one_connection():
    calls = Calls(GrowingTurns(6, max_waited=HOUR))
    tasks = await calls.start(1 + MAX_WAITING)
    assert calls.running == 1
    calls.end()
    await asyncio.gather(*tasks)
    assert (calls.most, calls.ended) == (1, 1 + MAX_WAITING)


async def test_a_call_that_has_waited_for_long_runs_beside_the_others():
    calls = Calls(GrowingTurns(6, max_waited=0.001))
    tasks = await calls.start(2)
    await calls.until_running(2)
    calls.end()
    await asyncio.gather(*tasks)


async def test_calls_that_wait_a_little_each_time_get_another_connection_in_the_end():
    turns, at_once, most = GrowingTurns(6, max_waited=0.05), 0, 0

    async def call():
        nonlocal at_once, most
        async with turns:
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once -= 1

    async def pair():
        await asyncio.gather(call(), call())

    await pair()
    assert most == 1
    async with asyncio.timeout(30):
        while most < 2:
            await pair()


async def test_many_calls_that_wait_do_not_wait_for_long():
    calls = Calls(GrowingTurns(6, max_waited=HOUR))
    tasks = await calls.start(MAX_WAITING + 3)
    assert calls.running == 3
    calls.end()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("most", [0.001, HOUR])
async def test_no_more_run_at_once_than_there_may_be_connections(most):
    calls = Calls(GrowingTurns(2, max_waited=most))
    tasks = await calls.start(9)
    await calls.until_running(2)
    calls.end()
    await asyncio.gather(*tasks)
    assert (calls.most, calls.ended) == (2, 9)


async def test_a_call_that_is_given_up_while_it_waits_leaves_its_turn_to_others():
    calls = Calls(GrowingTurns(6, max_waited=HOUR))
    _, given_up, last = tasks = await calls.start(3)
    given_up.cancel()
    calls.end()
    await asyncio.wait(tasks)
    assert given_up.cancelled() and last.done() and calls.ended == 2


async def test_a_call_that_fails_leaves_its_turn_to_others():
    turns = GrowingTurns(1)
    with pytest.raises(ValueError, match="broken"):
        async with turns:
            raise ValueError("broken")
    async with asyncio.timeout(5), turns:
        pass
