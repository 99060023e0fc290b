"""Values as the JSON texts that the queries read."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

MOST_BYTES = 16 << 20  # of one text; SQLite takes a gigabyte at most

encode = msgspec.json.Encoder().encode


def as_json(value: Any) -> str:
    """Return plain values as one text."""
    return encode(value).decode()


def as_lists(rows: Iterable[bytes]) -> Iterator[str]:
    """Return encoded rows as lists, none of them too long."""
    batch: list[bytes] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row)
        if size > MOST_BYTES:
            yield _list(batch)
            batch, size = [], 0
    if batch:
        yield _list(batch)


def storable(text: str) -> str:
    """Return a message without what no text in a database may hold: NUL and half characters."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _list(rows: list[bytes]) -> str:
    return (b"[%b]" % b",".join(rows)).decode()
