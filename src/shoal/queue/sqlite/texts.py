"""Values as the queries read them."""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def as_json(value: Any) -> str:
    """Return plain values as one JSON text."""
    return _encode(value).decode()


def storable(text: str) -> str:
    """Return a message without what no text in a database may hold: NUL and half characters."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
