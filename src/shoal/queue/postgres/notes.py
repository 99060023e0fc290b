"""Notes, and the fences that they make: each verb is one call of a function of the schema."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import blake2b

from shoal.core.model import ZERO, Note
from shoal.queue.contract import NotesSize, SharedNotes
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, QUERIES, call
from shoal.queue.requests import GONE, Fence, new_stamp

WRITE = call("write_notes", *ONCE, "bigint", "interval", "bytea[]", "text[]", "bytea[]", "bytea[]")
SWAP = call("swap_note", *ONCE, "bytea", "text", "bytea", "bigint", "bigint", "interval")
TRIM = call("trim_notes", *ONCE, "bigint")


def hash_of(key: str) -> bytes:
    """Return the hash that identifies a key within its topic."""
    return blake2b(key.encode(), digest_size=16).digest()


def fence_columns(fence: Fence | None) -> tuple[str | None, bytes | None, int | None]:
    """Return the arguments that fence a claim."""
    if fence is None:
        return None, None, None
    topic, key, stamp = fence
    return topic, hash_of(key), stamp


def hashes_of(keys: Iterable[str]) -> list[bytes]:
    """Return the hashes of several keys."""
    return [hash_of(key) for key in keys]


class PostgresNotes(SharedNotes):
    """The notes of a queue."""

    _server: PostgresServer

    async def _read_notes(self, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
        if keys is None:
            rows = await self._server.fetch(QUERIES["notes"], topic)
        else:
            rows = await self._server.fetch(QUERIES["notes_of"], topic, hashes_of(keys))
        return {
            row["key"]: Note(value=row["value"], stamp=row["stamp"], age=max(row["age"], ZERO))
            for row in rows
        }

    async def _write_notes(
        self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
    ) -> None:
        written = {key: value for key, value in values.items() if value is not None}
        removed = values.keys() - written.keys()
        columns = hashes_of(written), list(written), list(written.values()), hashes_of(removed)
        await self._server.once(WRITE, topic, new_stamp(), ttl, *columns)

    async def _swap_note(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None:
        new = new_stamp()
        rows = await self._server.once(SWAP, topic, hash_of(key), key, value, stamp, new, ttl)
        if not rows[0][0]:
            return None
        return GONE if value is None else Note(value=value, stamp=new, age=ZERO)

    async def _trim_notes(self, topic: str, max_bytes: int) -> int:
        return int((await self._server.once(TRIM, topic, max_bytes))[0][0])

    async def _notes_size(self, topic: str) -> NotesSize:
        (row,) = await self._server.fetch(QUERIES["notes_size"], topic)
        oldest = row["oldest"]
        return NotesSize(row["count"], row["bytes"], None if oldest is None else max(oldest, ZERO))
