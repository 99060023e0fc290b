"""Work done once for concurrent callers, and results cached up to a size."""

import asyncio

import pytest

from shoal.fetch.singleflight import LruCache, SingleFlight


class Work:
    """Counts its calls; waits until it may end."""

    def __init__(self):
        self.times, self.may_end = 0, asyncio.Event()

    async def __call__(self):
        self.times += 1
        await self.may_end.wait()
        return self.times


async def test_those_who_ask_at_the_same_time_share_one_piece_of_work():
    shared, work = SingleFlight(), Work()
    asking = [asyncio.create_task(shared.do("key", work)) for _ in range(20)]
    await asyncio.sleep(0)
    work.may_end.set()
    assert await asyncio.gather(*asking) == [1] * 20


async def test_who_asks_later_has_it_done_again():
    shared, work = SingleFlight(), Work()
    work.may_end.set()
    assert await shared.do("key", work) == 1
    assert await shared.do("key", work) == 2


async def test_one_who_gives_up_does_not_take_the_result_from_the_others():
    shared, work = SingleFlight(), Work()
    first = asyncio.create_task(shared.do("key", work))
    second = asyncio.create_task(shared.do("key", work))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    work.may_end.set()
    assert await second == 1
    assert first.cancelled()


async def test_all_get_the_same_error_and_the_next_one_may_succeed():
    shared = SingleFlight()

    async def fail():
        raise ValueError("no")

    results = await asyncio.gather(*(shared.do("key", fail) for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    work = Work()
    work.may_end.set()
    assert await shared.do("key", work) == 1


async def test_an_error_that_nobody_waits_for_makes_no_noise():
    shared, may_fail = SingleFlight(), asyncio.Event()

    async def fail():
        await may_fail.wait()
        raise ValueError("nobody listens")

    asking = asyncio.create_task(shared.do("key", fail))
    await asyncio.sleep(0)
    asking.cancel()
    may_fail.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)


async def test_closing_cancels_what_is_running():
    shared, work = SingleFlight(), Work()
    asking = asyncio.create_task(shared.do("key", work))
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_a_shelf_throws_away_what_was_not_used_for_longest():
    shelf = LruCache(3)
    for key in "abc":
        shelf.put(key, key.upper())
    assert shelf.get("a") == "A"
    shelf.put("d", "D")
    assert [shelf.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_shelf_counts_sizes_and_not_only_things():
    shelf = LruCache(100)
    shelf.put("large", "l", 60)
    shelf.put("small", "s", 30)
    shelf.put("more", "m", 30)
    assert [shelf.get(key) for key in ("large", "small", "more")] == [None, "s", "m"]


def test_what_is_replaced_no_longer_counts():
    shelf = LruCache(100)
    for _ in range(10):
        shelf.put("same", "s", 60)
    shelf.put("other", "o", 40)
    assert len(shelf) == 2


def test_a_single_thing_is_kept_however_large_it_is():
    shelf = LruCache(10)
    shelf.put("huge", "h", 1000)
    assert shelf.get("huge") == "h"
    shelf.put("next", "n", 1)
    assert shelf.get("huge") is None
