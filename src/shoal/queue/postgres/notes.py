"""Notes: each verb is one call of a function in the database."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence
from shoal.queue.postgres import sql
from shoal.queue.postgres.server import Server
from shoal.queue.rules import new_stamp


def place_of(key: str) -> bytes:
    """Return where the note of a key stands in its topic."""
    return blake2b(key.encode(), digest_size=16).digest()


def fence_columns(fence: Fence | None) -> tuple[str | None, bytes | None, int | None]:
    """Return the arguments by which a claim is fenced."""
    if fence is None:
        return None, None, None
    topic, key, stamp = fence
    return topic, place_of(key), stamp


async def read(server: Server, topic: str, keys: Sequence[str] | None) -> dict[str, Note]:
    """Return the notes that have not expired."""
    if keys is None:
        rows = await server.fetch(sql.QUERIES["notes"], topic)
    else:
        rows = await server.fetch(sql.QUERIES["notes_of"], topic, _places(keys))
    return {
        row["key"]: Note(value=row["value"], stamp=row["stamp"], age=max(row["age"], ZERO)) for row in rows
    }


async def write(
    server: Server, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
) -> None:
    """Write notes, and remove those whose value is None."""
    kept = {key: value for key, value in values.items() if value is not None}
    gone = values.keys() - kept.keys()
    columns = _places(kept), list(kept), list(kept.values()), _places(gone)
    await server.once(sql.WRITE_NOTES, topic, new_stamp(), ttl, *columns)


async def swap(
    server: Server, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
) -> Note | None:
    """Write or remove a note that has this stamp; None when it has another."""
    fresh = new_stamp()
    rows = await server.once(sql.SWAP_NOTE, topic, place_of(key), key, value, stamp, fresh, ttl)
    if not rows[0][0]:
        return None
    return GONE if value is None else Note(value=value, stamp=fresh, age=ZERO)


async def trim(server: Server, topic: str, max_bytes: int) -> int:
    """Remove the oldest notes of a topic, and return how many."""
    rows = await server.once(sql.TRIM_NOTES, topic, max_bytes)
    return int(rows[0][0])


def _places(keys: Iterable[str]) -> list[bytes]:
    return [place_of(key) for key in keys]
