"""Notes: written by the writer's thread in its transactions, read by the reader's."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence
from shoal.queue.rules import new_stamp
from shoal.queue.sqlite.moment import duration, optional_micros
from shoal.queue.sqlite.store import Store, query
from shoal.queue.sqlite.texts import as_json

AT_ONCE = 100  # expired notes that one call removes


def read(store: Store, topic: str, keys: Sequence[str] | None) -> dict[str, Note]:
    """Return the notes that have not expired."""
    now = store.now()
    asked = {"topic": topic, "now": now}
    if keys is None:
        rows = store.connection.execute(query("note_read"), asked)
    else:
        rows = store.connection.execute(query("note_read_of"), {**asked, "keys": as_json(list(keys))})
    return {
        key: Note(value=value, stamp=stamp, age=duration(max(0, now - written_at)))
        for key, value, stamp, written_at in rows
    }


def write(store: Store, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None) -> None:
    """Write notes, and remove those whose value is None."""
    stamp = new_stamp()
    for key, value in values.items():
        if value is not None:
            _put(store, topic, key, value, stamp, ttl)
    gone = [key for key, value in values.items() if value is None]
    store.tell("note_remove", topic=topic, keys=as_json(gone))
    fade(store)


def swap(
    store: Store, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
) -> Note | None:
    """Write or remove a note that has this stamp; None when it has another."""
    if _stamp(store, topic, key) != stamp:
        return None
    if value is None:
        store.tell("note_remove", topic=topic, keys=as_json([key]))
        return GONE
    fresh = new_stamp()
    _put(store, topic, key, value, fresh, ttl)
    fade(store)
    return Note(value=value, stamp=fresh, age=ZERO)


def trim(store: Store, topic: str, max_bytes: int) -> int:
    """Remove the oldest notes of a topic, and return how many."""
    while fade(store) == AT_ONCE:
        pass
    return store.tell("note_trim", topic=topic, max_bytes=max_bytes)


def fade(store: Store) -> int:
    """Remove some notes that have expired, and return how many."""
    return store.tell("note_fade", now=store.now(), limit=AT_ONCE)


def stands(store: Store, fence: Fence) -> bool:
    """Say whether the note that a claim is fenced by is still the same."""
    topic, key, stamp = fence
    return _stamp(store, topic, key) == stamp


def _stamp(store: Store, topic: str, key: str) -> int | None:
    found: int | None = store.value("note_stamp", topic=topic, key=key, now=store.now())
    return found


def _put(store: Store, topic: str, key: str, value: bytes, stamp: int, ttl: timedelta | None) -> None:
    life = optional_micros(ttl)
    store.tell("note_write", topic=topic, key=key, value=value, stamp=stamp, ttl=life, now=store.now())
