"""Notes in a SQLite file."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from shoal.core.model import Note
from shoal.queue.contract import NotesSize, SharedNotes
from shoal.queue.rules import check_new_notes, check_notes, check_trim
from shoal.queue.sqlite import notes
from shoal.queue.sqlite.verbs.base import SqliteQueueBase


class SqliteSharedNotes(SqliteQueueBase, SharedNotes):
    """Reads and writes notes."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        return await self._reader.call(notes.read, topic, keys)

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        await self._writer.call(notes.write, topic, values, ttl)

    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None:
        check_new_notes(topic, {key: value}, ttl)
        return await self._writer.call(notes.swap, topic, key, value, stamp, ttl)

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        return await self._writer.call(notes.trim, topic, max_bytes)

    async def notes_size(self, topic: str) -> NotesSize:
        check_notes(topic, ())
        return await self._reader.call(notes.size, topic)
