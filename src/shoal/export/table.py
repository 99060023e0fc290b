"""Items as rows of a table, and the kinds of values in its columns."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from shoal.core.errors import InvalidItem
from shoal.core.model import StoredItem

MAX_COLUMNS = 10_000
VALUE = "value"  # column of an item that is not a mapping

Row = Mapping[str, Any]


def row(item: StoredItem, *, envelope: bool = False) -> Row:
    """Return an item as a mapping of names to values."""
    data = item.data if isinstance(item.data, Mapping) else {VALUE: item.data}
    return {**origin(item), **data} if envelope else data


def origin(item: StoredItem) -> dict[str, Any]:
    """Return the origin of an item as columns: where and when it was found."""
    return {
        "_url": item.url,
        "_step": item.step,
        "_task_id": item.task_id,
        "_stored_at": item.stored_at,
    }


def check_width(columns: Collection[str], max_columns: int = MAX_COLUMNS) -> None:
    """Raise InvalidItem if there are more columns than allowed."""
    if len(columns) > max_columns:
        raise InvalidItem(
            None, f"the items have more than {max_columns:,} columns. Export them to a .jsonl file"
        )


def mismatch_error(item: StoredItem, what: str) -> InvalidItem:
    """Return the error for an item that does not match the surveyed columns."""
    location = item.url or item.task_id
    reason = f"item {item.id} of {location} has {what}, unlike the items before it. Run the export again"
    return InvalidItem(item.data, reason)


def describe_columns(names: Iterable[str]) -> str:
    """Name the first column, and count the others, for a message."""
    first, *others = sorted(names)
    return f"the column {first!r}" + (f" and {len(others)} more" if others else "")


def to_json(value: Any) -> str:
    """Return a list or mapping as JSON text."""
    return msgspec.json.encode(value).decode()


_EXACT = 1 << 53  # integers up to here are exact as floats too
_INT64 = 1 << 63


class Kind(Enum):
    """A kind of value; the text is for messages."""

    NULL = "no value"
    BOOL = "booleans"
    INT = "integers"
    BIGINT = "large integers"  # not exact as floats
    FLOAT = "decimal numbers"
    TIMESTAMP = "timestamps"
    JSON = "lists or mappings"
    TEXT = "text"


_KIND_OF_TYPE = {
    type(None): Kind.NULL,
    bool: Kind.BOOL,
    float: Kind.FLOAT,
    datetime: Kind.TIMESTAMP,
    list: Kind.JSON,
    dict: Kind.JSON,
}
_COMMON = {
    frozenset((Kind.INT, Kind.BIGINT)): Kind.BIGINT,
    frozenset((Kind.INT, Kind.FLOAT)): Kind.FLOAT,
}


def kind_of(value: Any) -> Kind:
    """Return the narrowest kind that holds a value."""
    if type(value) is not int:
        return _KIND_OF_TYPE.get(type(value), Kind.TEXT)
    if -_EXACT <= value <= _EXACT:
        return Kind.INT
    return Kind.BIGINT if -_INT64 <= value < _INT64 else Kind.TEXT


def common_kind(one: Kind, other: Kind) -> Kind:
    """Return the narrowest kind that holds the values of both."""
    if one is other or other is Kind.NULL:
        return one
    if one is Kind.NULL:
        return other
    return _COMMON.get(frozenset((one, other)), Kind.TEXT)


def convert(value: Any, kind: Kind) -> Any:
    """Convert a value to the kind of its column; in a text column, other values become JSON."""
    if value is None or isinstance(value, str):
        return value
    if kind in (Kind.TEXT, Kind.JSON):
        return as_text(value)
    return float(value) if kind is Kind.FLOAT else value


def as_text(value: Any) -> str:
    """Return any value as text; anything but text and timestamps becomes JSON."""
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime) else to_json(value)
