"""Notes, and the fences that they make: each verb is one call of a function of the schema."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import blake2b

from shoal.core.model import ZERO, Note
from shoal.queue.contract import NotesSize
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


async def read(server: PostgresServer, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
    """Return the notes that have not expired."""
    if keys is None:
        rows = await server.fetch(QUERIES["notes"], topic)
    else:
        rows = await server.fetch(QUERIES["notes_of"], topic, hashes_of(keys))
    return {
        row["key"]: Note(value=row["value"], stamp=row["stamp"], age=max(row["age"], ZERO)) for row in rows
    }


async def write(
    server: PostgresServer, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
) -> None:
    """Write notes, and remove those whose value is None."""
    written = {key: value for key, value in values.items() if value is not None}
    removed = values.keys() - written.keys()
    columns = hashes_of(written), list(written), list(written.values()), hashes_of(removed)
    await server.once(WRITE, topic, new_stamp(), ttl, *columns)


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
    rows = await server.once(SWAP, topic, hash_of(key), key, value, stamp, new, ttl)
    if not rows[0][0]:
        return None
    return GONE if value is None else Note(value=value, stamp=new, age=ZERO)


async def trim(server: PostgresServer, topic: str, max_bytes: int) -> int:
    """Remove the oldest notes of a topic, and return their number."""
    return int((await server.once(TRIM, topic, max_bytes))[0][0])


async def size(server: PostgresServer, topic: str) -> NotesSize:
    """Return how many notes have not expired, their bytes, and the age of the oldest."""
    (row,) = await server.fetch(QUERIES["notes_size"], topic)
    oldest = row["oldest"]
    return NotesSize(row["count"], row["bytes"], None if oldest is None else max(oldest, ZERO))
