"""Notes: one script call on each shard that holds some of them, all in parallel."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from zlib import crc32

from shoal.core.model import ZERO, Note
from shoal.queue.contract import NotesSize, SharedNotes
from shoal.queue.encoding import duration, micros
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.requests import GONE, Fence, new_stamp

FIRST_PAGE = b"0"
PAGE = 500  # notes that a trim reads from each shard at a time


class AgedNote(NamedTuple):
    """A candidate for removal."""

    written: int
    shard: int
    key: bytes
    stamp: bytes
    size: int


class RedisNotes(SharedNotes):
    """The notes of a queue. Topic and key together select the shard, so that a large topic is spread."""

    _server: RedisServer
    _shards: int

    async def _read_notes(self, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
        if keys is None:
            calls = [self._every(shard, topic) for shard in range(self._shards)]
        else:
            calls = [self._named(shard, topic, some) for shard, some in self._by_shard(topic, keys).items()]
        return {key: note for found in await asyncio.gather(*calls) for key, note in found.items()}

    async def _write_notes(
        self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
    ) -> None:
        stamp = new_stamp()
        calls = (
            self._server.once("write_notes", shard, topic, stamp, _ttl(ttl), *_columns(values, keys))
            for shard, keys in self._by_shard(topic, values).items()
        )
        await asyncio.gather(*calls)

    async def _swap_note(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None:
        fresh = new_stamp()
        words: list[Argument] = [topic, key, "" if stamp is None else stamp, fresh, _ttl(ttl)]
        if value is not None:
            words.append(value)
        if not await self._server.once("swap_note", self._shard_of_note(topic, key), *words):
            return None
        return GONE if value is None else Note(value=value, stamp=fresh, age=ZERO)

    async def is_valid(self, fence: Fence) -> bool:
        """Return whether a note still has the stamp of a fence."""
        topic, key, stamp = fence
        found = await self._read_notes(topic, [key])
        return key in found and found[key].stamp == stamp

    async def _trim_notes(self, topic: str, max_bytes: int) -> int:
        count = 0
        while True:
            replies = await asyncio.gather(
                *(self._server.call("aged_notes", shard, topic, PAGE) for shard in range(self._shards))
            )
            if any(more for _, more, _ in replies):
                continue
            excess = sum(int(total) for total, _, _ in replies) - max_bytes
            pages = [_aged_notes(shard, rows) for shard, (_, _, rows) in enumerate(replies)]
            removed = await self._drop_notes(topic, oldest_notes(pages, excess))
            count += removed
            if not removed:  # the rest fits, or was just written again
                return count

    async def _notes_size(self, topic: str) -> NotesSize:
        found = await asyncio.gather(*(self._size_on(shard, topic) for shard in range(self._shards)))
        ages = [one.oldest for one in found if one.oldest is not None]
        count, total = sum(one.count for one in found), sum(one.bytes for one in found)
        return NotesSize(count, total, max(ages, default=None))

    async def _size_on(self, shard: int, topic: str) -> NotesSize:
        while True:
            count, total, age, more = await self._server.call("notes_size", shard, topic, PAGE)
            if not more:
                return NotesSize(count, total, None if age < 0 else duration(age))

    async def _drop_notes(self, topic: str, notes: Sequence[AgedNote]) -> int:
        by_shard: dict[int, list[Argument]] = {}
        for one in notes:
            by_shard.setdefault(one.shard, []).extend((one.key, one.stamp))
        calls = (self._server.once("drop_notes", shard, topic, *words) for shard, words in by_shard.items())
        return sum(map(int, await asyncio.gather(*calls)))

    async def _named(self, shard: int, topic: str, keys: Iterable[str]) -> dict[str, Note]:
        _, rows = await self._server.call("notes", shard, topic, "", *keys)
        return dict(map(_note, rows))

    async def _every(self, shard: int, topic: str) -> dict[str, Note]:
        found: dict[str, Note] = {}
        cursor = FIRST_PAGE
        while True:
            cursor, rows = await self._server.call("notes", shard, topic, cursor)
            found.update(map(_note, rows))
            if cursor == FIRST_PAGE:
                return found

    def _by_shard(self, topic: str, keys: Iterable[str]) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for key in keys:
            groups.setdefault(self._shard_of_note(topic, key), []).append(key)
        return groups

    def _shard_of_note(self, topic: str, key: str) -> int:
        return crc32(f"{topic}\0{key}".encode()) % self._shards


def _columns(values: Mapping[str, bytes | None], keys: Sequence[str]) -> list[Argument]:
    """Return the arguments of `write_notes.lua` for these keys."""
    written = [(key, value) for key in keys if (value := values[key]) is not None]
    removed = [key for key in keys if values[key] is None]
    return [len(written), *(word for pair in written for word in pair), *removed]


def oldest_notes(shards: Sequence[Sequence[AgedNote]], excess: int) -> list[AgedNote]:
    """Return the oldest notes with `excess` bytes in total, as far as these pages show which they are."""
    # After the end of a full page, its shard may have older notes than the pages of the others.
    known = min((page[-1].written for page in shards if len(page) >= PAGE), default=None)
    found: list[AgedNote] = []
    for one in sorted(one for page in shards for one in page):
        if excess <= 0 or (known is not None and one.written > known):
            break
        found.append(one)
        excess -= one.size
    return found


def _aged_notes(shard: int, rows: Iterable[Any]) -> list[AgedNote]:
    return [AgedNote(int(written), shard, key, stamp, int(size)) for written, key, stamp, size in rows]


def _note(row: Sequence[bytes]) -> tuple[str, Note]:
    key, stamp, age, value = row
    return key.decode(), Note(value=value, stamp=int(stamp), age=duration(int(age)))


def _ttl(ttl: timedelta | None) -> int:
    return 0 if ttl is None else max(1, micros(ttl))
