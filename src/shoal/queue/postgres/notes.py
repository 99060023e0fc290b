"""Notes: each verb is one call of a database function."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence, NotesSize
from shoal.queue.postgres import sql
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.rules import new_stamp


def hash_of(key: str) -> bytes:
    """Return the hash that identifies a key within its topic."""
    return blake2b(key.encode(), digest_size=16).digest()


def fence_columns(fence: Fence | None) -> tuple[str | None, bytes | None, int | None]:
    """Return the arguments that fence a claim."""
    if fence is None:
        return None, None, None
    topic, key, stamp = fence
    return topic, hash_of(key), stamp


async def read(server: PostgresServer, topic: str, keys: Sequence[str] | None) -> dict[str, Note]:
    """Return the notes that have not expired."""
    if keys is None:
        rows = await server.fetch(sql.QUERIES["notes"], topic)
    else:
        rows = await server.fetch(sql.QUERIES["notes_of"], topic, _hashes(keys))
    return {
        row["key"]: Note(value=row["value"], stamp=row["stamp"], age=max(row["age"], ZERO)) for row in rows
    }


async def write(
    server: PostgresServer, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
) -> None:
    """Write notes, and remove those whose value is None."""
    written = {key: value for key, value in values.items() if value is not None}
    removed = values.keys() - written.keys()
    columns = _hashes(written), list(written), list(written.values()), _hashes(removed)
    await server.once(sql.WRITE_NOTES, topic, new_stamp(), ttl, *columns)


async def swap(
    server: PostgresServer,
    topic: str,
    key: str,
    value: bytes | None,
    stamp: int | None,
    ttl: timedelta | None,
) -> Note | None:
    """Write or remove a note that has this stamp; None if it has another."""
    new = new_stamp()
    rows = await server.once(sql.SWAP_NOTE, topic, hash_of(key), key, value, stamp, new, ttl)
    if not rows[0][0]:
        return None
    return GONE if value is None else Note(value=value, stamp=new, age=ZERO)


async def trim(server: PostgresServer, topic: str, max_bytes: int) -> int:
    """Remove the oldest notes of a topic, and return their number."""
    rows = await server.once(sql.TRIM_NOTES, topic, max_bytes)
    return int(rows[0][0])


async def size(server: PostgresServer, topic: str) -> NotesSize:
    """Return how many notes have not expired, their bytes, and the age of the oldest."""
    (row,) = await server.fetch(sql.QUERIES["notes_size"], topic)
    oldest = row["oldest"]
    return NotesSize(row["count"], row["bytes"], None if oldest is None else max(oldest, ZERO))


def _hashes(keys: Iterable[str]) -> list[bytes]:
    return [hash_of(key) for key in keys]
