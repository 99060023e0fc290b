"""The pool of one worker: what it does when tokens are paused, run out or change, or the queue fails."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting, NoTokenLeft, QueueUnavailable, TokensResting
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.rate_limit_headers import RateLimit
from shoal.fetch.tokens.token import TokenSource
from tests.unit.fetch.tokens.warp import FarQueue, chance_of, warped


def rate_limit(left, seconds=10.0):
    return RateLimit(left=left, limit=100, resets_in=timedelta(seconds=seconds))


def pooled(test):
    """Run a test with a queue, and a function that opens pools on it, in simulated time."""

    async def run(loop):
        queue = FarQueue(loop, chance_of(1))

        async def open_pool(*tokens, **source):
            given = TokenSource(given=tokens, **source)
            return await TokenPool.open(queue, given, run_id="r", clock=loop.time)

        await test(loop, queue, open_pool)

    warped(run)


def test_while_one_asks_what_is_left_all_others_wait():
    async def test(loop, queue, open_pool):
        one, other = await open_pool("a"), await open_pool("a")
        first = await one.acquire()
        waiting = [asyncio.create_task(pool.acquire()) for pool in (one, other) for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        await one.finish(first, rate_limit(99))
        await asyncio.sleep(1)
        assert all(task.done() for task in waiting)
        await asyncio.gather(one.close(), other.close())

    pooled(test)


def test_when_all_rest_the_earliest_reset_is_reported():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a", "b")
        for seconds in (30, 50):
            await pool.pause(await pool.acquire(), RateLimit(retry_after=timedelta(seconds=seconds)))
        with pytest.raises(TokensResting) as caught:
            await pool.acquire()
        assert 29 < caught.value.after.total_seconds() <= 30
        await asyncio.sleep(31)
        permit = await pool.acquire()
        await pool.finish(permit, rate_limit(5))
        await pool.close()

    pooled(test)


def test_a_reset_that_is_near_is_waited_for():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        await pool.pause(await pool.acquire(), RateLimit(retry_after=timedelta(seconds=0.2)))
        began = loop.time()
        await pool.acquire()
        assert 0.19 < loop.time() - began < 0.5
        await pool.close()

    pooled(test)


def test_one_that_gives_up_waiting_hands_its_request_back():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        await pool.finish(await pool.acquire(), rate_limit(10))
        for _ in range(50):
            task = asyncio.create_task(pool.acquire())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                pool.give_back(task.result())
        taken = [await pool.acquire() for _ in range(10)]
        with pytest.raises(TokensResting):
            await pool.acquire()
        assert len(taken) == 10
        await pool.close()

    pooled(test)


def test_a_worker_that_vanishes_costs_what_it_held_and_no_more():
    async def test(loop, queue, open_pool):
        dead, alive = await open_pool("a"), await open_pool("a")
        await dead.finish(await dead.acquire(), rate_limit(99, 1_000))
        await dead.acquire()
        dead._maintaining.cancel()
        got = 0
        with pytest.raises(TokensResting):
            while True:
                await alive.acquire()
                got += 1
        assert 60 < got < 99
        await alive.close()

    pooled(test)


def test_one_that_vanishes_while_it_asks_what_is_left_is_followed_by_another():
    async def test(loop, queue, open_pool):
        dead, alive = await open_pool("a"), await open_pool("a")
        await dead.acquire()
        dead._maintaining.cancel()
        began = loop.time()
        while True:
            try:
                await alive.acquire()
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
            await pool.record_rejection(await pool.acquire(), page, "401")
        with pytest.raises(NoTokenLeft, match=r"tokens\.txt"):
            await pool.acquire()
        file.write_text("new")
        await asyncio.sleep(6)
        assert (await pool.acquire()).token.text == "new"
        await pool.close()

    pooled(test)


def test_a_file_that_cannot_be_read_any_more_leaves_the_tokens_as_they_are(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("one")

    async def test(loop, queue, open_pool):
        pool = await open_pool(file=file)
        await pool.finish(await pool.acquire(), rate_limit(9))
        file.unlink()
        await asyncio.sleep(6)
        assert (await pool.acquire()).token.text == "one"
        await pool.close()

    pooled(test)


def test_a_queue_that_is_away_puts_requests_off():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")

        async def away(*_, **__):
            raise QueueUnavailable("redis://x", "away")

        queue.notes = queue.swap_note = away
        with pytest.raises(TokensResting, match="cannot be read"):
            await pool.acquire()
        await pool.close()

    pooled(test)


def test_no_token_at_all_is_an_error_at_once():
    async def test(loop, queue, open_pool):
        with pytest.raises(InvalidSetting, match="are empty"):
            await open_pool()

    pooled(test)


def test_a_queue_that_is_away_does_not_spoil_a_page_that_came():
    async def test(loop, queue, open_pool):
        pool = await open_pool("a")
        first = await pool.acquire()

        async def away(*_, **__):
            raise QueueUnavailable("redis://x", "away")

        queue.notes = queue.swap_note = away
        await pool.finish(first, rate_limit(50))
        await pool.close()

    pooled(test)
