"""The pool of one worker: what it does when tokens rest, run out, come and go, or the queue is away."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting, NoTokenLeft, QueueUnavailable, TokensResting
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.token import Source
from shoal.fetch.tokens.told import Told
from tests.unit.fetch.tokens.warp import FarQueue, chance_of, warped


def told(left, seconds=10.0):
    return Told(left=left, limit=100, resets_in=timedelta(seconds=seconds))


def pooled(test):
    """Run a test with a queue, and a way to open pools on it, in a time of its own."""

    async def run(loop):
        queue = FarQueue(loop, chance_of(1))

        async def open_pool(*tokens, **source):
            given = Source(given=tokens, **source)
            return await TokenPool.open(queue, given, run_id="r", clock=loop.time)

        await test(loop, queue, open_pool)

    warped(run)


def test_while_one_asks_what_is_left_all_others_wait():
    async def test(loop, queue, open_pool):
        one, other = await open_pool("a"), await open_pool("a")
        first = await one.draw()
        waiting = [asyncio.create_task(pool.draw()) for pool in (one, other) for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        await one.over(first, told(99))
        await asyncio.sleep(1)
        assert all(task.done() for task in waiting)
        await asyncio.gather(one.close(), other.close())

    pooled(test)


def test_when_all_rest_the_earliest_reset_is_told():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a", "b")
        for seconds in (30, 50):
            await pool.rest(await pool.draw(), Told(rest=timedelta(seconds=seconds)))
        with pytest.raises(TokensResting) as caught:
            await pool.draw()
        assert 29 < caught.value.after.total_seconds() <= 30
        await asyncio.sleep(31)
        draw = await pool.draw()
        await pool.over(draw, told(5))
        await pool.close()

    pooled(test)


def test_a_reset_that_is_near_is_waited_for():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        await pool.rest(await pool.draw(), Told(rest=timedelta(seconds=0.2)))
        began = loop.time()
        await pool.draw()
        assert 0.19 < loop.time() - began < 0.5
        await pool.close()

    pooled(test)


def test_one_that_gives_up_waiting_hands_its_request_back():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        await pool.over(await pool.draw(), told(10))
        for _ in range(50):
            task = asyncio.create_task(pool.draw())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                pool.unsent(task.result())
        drawn = [await pool.draw() for _ in range(10)]
        with pytest.raises(TokensResting):
            await pool.draw()
        assert len(drawn) == 10
        await pool.close()

    pooled(test)


def test_a_worker_that_vanishes_costs_what_it_held_and_no_more():
    async def test(loop, queue, open_pool):
        dead, alive = await open_pool("a"), await open_pool("a")
        await dead.over(await dead.draw(), told(99, 1_000))
        await dead.draw()
        dead._tidying.cancel()
        got = 0
        with pytest.raises(TokensResting):
            while True:
                await alive.draw()
                got += 1
        assert 60 < got < 99
        await alive.close()

    pooled(test)


def test_one_that_vanishes_while_it_asks_what_is_left_is_followed_by_another():
    async def test(loop, queue, open_pool):
        dead, alive = await open_pool("a"), await open_pool("a")
        await dead.draw()
        dead._tidying.cancel()
        began = loop.time()
        while True:
            try:
                await alive.draw()
                break
            except TokensResting as wait:
                await asyncio.sleep(wait.after.total_seconds())
        assert loop.time() - began < 80
        await alive.close()

    pooled(test)


def test_tokens_that_are_written_into_their_file_are_found(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("old")

    async def test(loop, queue, open_pool):
        pool = await open_pool(file=file)
        for page in "xy":
            await pool.doubt(await pool.draw(), page, "401")
        with pytest.raises(NoTokenLeft, match=r"tokens\.txt"):
            await pool.draw()
        file.write_text("new")
        await asyncio.sleep(6)
        assert (await pool.draw()).token.text == "new"
        await pool.close()

    pooled(test)


def test_a_file_that_cannot_be_read_any_more_leaves_the_tokens_as_they_are(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("one")

    async def test(loop, queue, open_pool):
        pool = await open_pool(file=file)
        await pool.over(await pool.draw(), told(9))
        file.unlink()
        await asyncio.sleep(6)
        assert (await pool.draw()).token.text == "one"
        await pool.close()

    pooled(test)


def test_a_queue_that_is_away_puts_requests_off():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")

        async def away(*_, **__):
            raise QueueUnavailable("redis://x", "away")

        queue.notes = queue.swap_note = away
        with pytest.raises(TokensResting, match="cannot be asked"):
            await pool.draw()
        await pool.close()

    pooled(test)


def test_no_token_at_all_is_an_error_at_once():
    async def test(loop, queue, open_pool):
        with pytest.raises(InvalidSetting, match="hold no token"):
            await open_pool()

    pooled(test)


def test_a_queue_that_is_away_does_not_spoil_a_page_that_came():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        first = await pool.draw()

        async def away(*_, **__):
            raise QueueUnavailable("redis://x", "away")

        queue.notes = queue.swap_note = away
        await pool.over(first, told(50))
        await pool.close()

    pooled(test)
