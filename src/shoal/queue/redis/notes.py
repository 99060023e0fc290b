"""Notes: one script call on each shard that holds some of them, all at the same time."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from zlib import crc32

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence
from shoal.queue.redis.server import Argument, Server
from shoal.queue.redis.wire import duration, micros
from shoal.queue.rules import new_stamp

FIRST_PAGE = b"0"
PAGE = 500  # notes that a trim looks at in each shard at a time


class Aged(NamedTuple):
    """A note that may have to go."""

    written: int
    shard: int
    key: bytes
    stamp: bytes
    size: int


class Notes:
    """Reads and writes notes. Topic and key together say which shard, so that a large topic is spread."""

    def __init__(self, server: Server, shards: int) -> None:
        self._server, self._shards = server, shards

    async def read(self, topic: str, keys: Sequence[str] | None) -> dict[str, Note]:
        """Return the notes that have not expired."""
        if keys is None:
            calls = [self._every(shard, topic) for shard in range(self._shards)]
        else:
            calls = [self._named(shard, topic, some) for shard, some in self._by_shard(topic, keys).items()]
        return {key: note for found in await asyncio.gather(*calls) for key, note in found.items()}

    async def write(self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None) -> None:
        """Write notes, and remove those whose value is None."""
        stamp = new_stamp()
        calls = (
            self._server.once("write_notes", shard, topic, stamp, _life(ttl), *_columns(values, keys))
            for shard, keys in self._by_shard(topic, values).items()
        )
        await asyncio.gather(*calls)

    async def swap(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None:
        """Write or remove a note that has this stamp; None when it has another."""
        fresh = new_stamp()
        words: list[Argument] = [topic, key, "" if stamp is None else stamp, fresh, _life(ttl)]
        if value is not None:
            words.append(value)
        if not await self._server.once("swap_note", self._shard(topic, key), *words):
            return None
        return GONE if value is None else Note(value=value, stamp=fresh, age=ZERO)

    async def stands(self, fence: Fence) -> bool:
        """Say whether a note still has the stamp of a fence."""
        topic, key, stamp = fence
        found = await self.read(topic, [key])
        return key in found and found[key].stamp == stamp

    async def trim(self, topic: str, max_bytes: int) -> int:
        """Remove the oldest notes of a topic, and return how many."""
        count = 0
        while True:
            answers = await asyncio.gather(
                *(self._server.call("aged_notes", shard, topic, PAGE) for shard in range(self._shards))
            )
            if any(more for _, more, _ in answers):
                continue
            excess = sum(int(total) for total, _, _ in answers) - max_bytes
            doomed = doomed_of([_aged(shard, rows) for shard, (_, _, rows) in enumerate(answers)], excess)
            gone = await self._drop(topic, doomed)
            count += gone
            if not gone:  # they fit, or have just been written anew
                return count

    async def _drop(self, topic: str, doomed: Sequence[Aged]) -> int:
        by_shard: dict[int, list[Argument]] = {}
        for one in doomed:
            by_shard.setdefault(one.shard, []).extend((one.key, one.stamp))
        calls = (self._server.once("drop_notes", shard, topic, *words) for shard, words in by_shard.items())
        return sum(map(int, await asyncio.gather(*calls)))

    async def _named(self, shard: int, topic: str, keys: Iterable[str]) -> dict[str, Note]:
        _, rows = await self._server.call("notes", shard, topic, "", *keys)
        return dict(map(_note, rows))

    async def _every(self, shard: int, topic: str) -> dict[str, Note]:
        found: dict[str, Note] = {}
        place = FIRST_PAGE
        while True:
            place, rows = await self._server.call("notes", shard, topic, place)
            found.update(map(_note, rows))
            if place == FIRST_PAGE:
                return found

    def _by_shard(self, topic: str, keys: Iterable[str]) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for key in keys:
            groups.setdefault(self._shard(topic, key), []).append(key)
        return groups

    def _shard(self, topic: str, key: str) -> int:
        return crc32(f"{topic}\0{key}".encode()) % self._shards


def _columns(values: Mapping[str, bytes | None], keys: Sequence[str]) -> list[Argument]:
    """Return what `write_notes.lua` reads of these keys."""
    kept = [(key, value) for key in keys if (value := values[key]) is not None]
    gone = [key for key in keys if values[key] is None]
    return [len(kept), *(word for pair in kept for word in pair), *gone]


def doomed_of(shards: Sequence[Sequence[Aged]], excess: int) -> list[Aged]:
    """Return the oldest notes that have this many bytes together, as far as it is known which they are."""
    # Behind the end of a full page, its shard may have older ones than the others show.
    known = min((page[-1].written for page in shards if len(page) >= PAGE), default=None)
    doomed: list[Aged] = []
    for one in sorted(one for page in shards for one in page):
        if excess <= 0 or (known is not None and one.written > known):
            break
        doomed.append(one)
        excess -= one.size
    return doomed


def _aged(shard: int, rows: Iterable[Any]) -> list[Aged]:
    return [Aged(int(written), shard, key, stamp, int(size)) for written, key, stamp, size in rows]


def _note(row: Sequence[bytes]) -> tuple[str, Note]:
    key, stamp, age, value = row
    return key.decode(), Note(value=value, stamp=int(stamp), age=duration(int(age)))


def _life(ttl: timedelta | None) -> int:
    return 0 if ttl is None else max(1, micros(ttl))
