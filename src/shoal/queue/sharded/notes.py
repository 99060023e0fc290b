"""Notes of a queue on several servers: all of them are at its home."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from shoal.core.model import Note
from shoal.queue.contract import NotesSize, SharedNotes
from shoal.queue.sharded.base import ShardedBase


class ShardedNotes(ShardedBase, SharedNotes):
    """Stores notes at the home, so that a swap has one place that decides."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        return await self._members.home.call(lambda queue: queue.notes(topic, keys))

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        await self._members.home.call(lambda queue: queue.write_notes(topic, values, ttl=ttl))

    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None:
        return await self._members.home.call(
            lambda queue: queue.swap_note(topic, key, value, stamp=stamp, ttl=ttl)
        )

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        return await self._members.home.call(lambda queue: queue.trim_notes(topic, max_bytes=max_bytes))

    async def notes_size(self, topic: str) -> NotesSize:
        return await self._members.home.call(lambda queue: queue.notes_size(topic))
