"""Responses stored as notes: few round trips, and no page fails because the queue does."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Note
from shoal.fetch.cache.queue_store import TOPIC, QueueCacheStore

KEEP = timedelta(hours=1)


class Board:
    """Notes in memory, and the calls that were made."""

    def __init__(self):
        self.kept, self.reads, self.writes, self.trims, self.fails = {}, [], [], [], False

    async def notes(self, topic, keys=None):
        assert topic == TOPIC
        self._may_fail()
        self.reads.append(sorted(keys))
        return {
            key: Note(value=self.kept[key], stamp=1, age=timedelta(seconds=7))
            for key in keys
            if key in self.kept
        }

    async def write_notes(self, topic, values, *, ttl=None):
        assert (topic, ttl) == (TOPIC, KEEP)
        self._may_fail()
        self.writes.append(sorted(values))
        self.kept |= values
        self.kept = {key: value for key, value in self.kept.items() if value is not None}

    async def trim_notes(self, topic, *, max_bytes):
        self.trims.append(max_bytes)
        return 0

    def _may_fail(self):
        if self.fails:
            raise QueueUnavailable("redis://x", "away")


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def store(board):
    return QueueCacheStore(board, max_bytes=1 << 20)


async def put(store, *keys, value=b"page"):
    for key in keys:
        await store.put(key, value, ttl=KEEP)


async def test_what_is_asked_for_at_one_moment_is_read_at_once(store, board):
    board.kept = {"a": b"1", "b": b"2"}
    found = await asyncio.gather(*(store.get(key) for key in "abca"))
    assert [held and held.value for held in found] == [b"1", b"2", None, b"1"]
    assert found[0].age == timedelta(seconds=7)
    assert board.reads == [["a", "b", "c"]]


async def test_what_is_put_at_one_moment_is_written_at_once_and_before_the_end(store, board):
    await put(store, "a", "b", "a")
    assert board.writes == []
    await store.close()
    assert board.writes == [["a", "b"]]


async def test_what_is_not_written_yet_is_found_all_the_same(store, board):
    await put(store, "a")
    assert (await store.get("a")).value == b"page"
    await put(store, "a", value=None)
    assert await store.get("a") is None
    assert board.reads == []
    await store.close()


async def test_a_queue_that_is_away_makes_a_miss_and_loses_a_write(store, board):
    board.fails = True
    await put(store, "a")
    assert await store.get("b") is None
    await store.close()
    board.fails = False
    assert await store.get("a") is None


async def test_the_cache_is_trimmed_now_and_then(store, board):
    for _ in range(4):
        await put(store, "a", value=b"x" * 30_000)
        await store.close()
    assert board.trims == [1 << 20]


async def test_answers_do_not_pile_up_while_the_queue_is_slow(store, board, monkeypatch):
    monkeypatch.setattr("shoal.fetch.cache.queue_store.MAX_PENDING", 1_000)
    await put(store, "a", "b", "c", value=b"x" * 600)
    assert board.writes == [["a"], ["b"]]
    await store.close()
    assert board.writes == [["a"], ["b"], ["c"]]


async def test_one_who_gives_up_waiting_does_not_take_the_answer_from_the_others(store, board):
    board.kept = {"a": b"1"}
    first, second = asyncio.create_task(store.get("a")), asyncio.create_task(store.get("a"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).value == b"1"


async def test_a_read_that_fails_in_an_unknown_way_fails_those_who_wait_for_it(store, board):
    async def fails(topic, keys=None):
        raise RuntimeError("boom")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    board.notes = fails
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="boom"):
            await store.get("a")


async def test_a_value_is_found_while_it_is_being_written(store, board):
    writes, may_write = asyncio.Event(), asyncio.Event()
    write = board.write_notes

    async def slow(*given, **named):
        writes.set()
        await may_write.wait()
        await write(*given, **named)

    board.write_notes = slow
    await put(store, "a")
    await writes.wait()
    assert (await store.get("a")).value == b"page"
    assert board.reads == []
    may_write.set()
    await store.close()
    assert board.kept == {"a": b"page"}
