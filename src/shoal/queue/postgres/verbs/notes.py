"""Notes in a PostgreSQL database: each verb is one call of a database function."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, NotesSize, SharedNotes
from shoal.queue.postgres import sql
from shoal.queue.postgres.notes import hash_of, hashes_of
from shoal.queue.postgres.verbs.base import PostgresQueueBase
from shoal.queue.rules import check_new_notes, check_notes, check_trim, new_stamp


class PostgresSharedNotes(PostgresQueueBase, SharedNotes):
    """Reads and writes notes."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        if keys is None:
            rows = await self._server.fetch(sql.QUERIES["notes"], topic)
        else:
            rows = await self._server.fetch(sql.QUERIES["notes_of"], topic, hashes_of(keys))
        return {
            row["key"]: Note(value=row["value"], stamp=row["stamp"], age=max(row["age"], ZERO))
            for row in rows
        }

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        written = {key: value for key, value in values.items() if value is not None}
        removed = values.keys() - written.keys()
        columns = hashes_of(written), list(written), list(written.values()), hashes_of(removed)
        await self._server.once(sql.WRITE_NOTES, topic, new_stamp(), ttl, *columns)

    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None:
        check_new_notes(topic, {key: value}, ttl)
        new = new_stamp()
        rows = await self._server.once(sql.SWAP_NOTE, topic, hash_of(key), key, value, stamp, new, ttl)
        if not rows[0][0]:
            return None
        return GONE if value is None else Note(value=value, stamp=new, age=ZERO)

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        rows = await self._server.once(sql.TRIM_NOTES, topic, max_bytes)
        return int(rows[0][0])

    async def notes_size(self, topic: str) -> NotesSize:
        check_notes(topic, ())
        (row,) = await self._server.fetch(sql.QUERIES["notes_size"], topic)
        oldest = row["oldest"]
        return NotesSize(row["count"], row["bytes"], None if oldest is None else max(oldest, ZERO))
