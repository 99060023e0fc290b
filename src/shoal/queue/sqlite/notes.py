"""Notes: written by the writer thread in its transactions, read by the reader thread."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import NotesSize
from shoal.queue.encoding import duration, optional_micros
from shoal.queue.requests import GONE, Fence, new_stamp
from shoal.queue.sqlite.store import QUERIES, Store, as_json

MAX_EXPIRED = 100  # expired notes that one call removes


def read(store: Store, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
    """Return the notes that have not expired."""
    now = store.now()
    values = {"topic": topic, "now": now}
    if keys is None:
        rows = store.connection.execute(QUERIES["note_read"], values)
    else:
        rows = store.connection.execute(QUERIES["note_read_of"], {**values, "keys": as_json(list(keys))})
    return {
        key: Note(value=value, stamp=stamp, age=duration(max(0, now - written_at)))
        for key, value, stamp, written_at in rows
    }


def size(store: Store, topic: str) -> NotesSize:
    """Return how many notes have not expired, their bytes, and the age of the oldest."""
    now = store.now()
    rows = store.connection.execute(QUERIES["note_size"], {"topic": topic, "now": now})
    ((count, total, written_at),) = rows
    return NotesSize(count, total, None if written_at is None else duration(max(0, now - written_at)))


def write(store: Store, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None) -> None:
    """Write notes, and remove those whose value is None."""
    stamp = new_stamp()
    for key, value in values.items():
        if value is not None:
            _write_one(store, topic, key, value, stamp, ttl)
    gone = [key for key, value in values.items() if value is None]
    store.run("note_remove", topic=topic, keys=as_json(gone))
    remove_expired(store)


def swap(
    store: Store, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
) -> Note | None:
    """Write or remove a note that has this stamp; None if it has another."""
    if _stamp(store, topic, key) != stamp:
        return None
    if value is None:
        store.run("note_remove", topic=topic, keys=as_json([key]))
        return GONE
    new = new_stamp()
    _write_one(store, topic, key, value, new, ttl)
    remove_expired(store)
    return Note(value=value, stamp=new, age=ZERO)


def trim(store: Store, topic: str, max_bytes: int) -> int:
    """Remove the oldest notes of a topic, and return their number."""
    while remove_expired(store) == MAX_EXPIRED:
        pass
    return store.run("note_trim", topic=topic, max_bytes=max_bytes)


def remove_expired(store: Store) -> int:
    """Remove up to MAX_EXPIRED expired notes, and return their number."""
    return store.run("note_expire", now=store.now(), limit=MAX_EXPIRED)


def fence_holds(store: Store, fence: Fence) -> bool:
    """Tell whether the note that fences a claim is unchanged."""
    topic, key, stamp = fence
    return _stamp(store, topic, key) == stamp


def _stamp(store: Store, topic: str, key: str) -> int | None:
    found: int | None = store.value("note_stamp", topic=topic, key=key, now=store.now())
    return found


def _write_one(store: Store, topic: str, key: str, value: bytes, stamp: int, ttl: timedelta | None) -> None:
    ttl_micros = optional_micros(ttl)
    store.run("note_write", topic=topic, key=key, value=value, stamp=stamp, ttl=ttl_micros, now=store.now())
