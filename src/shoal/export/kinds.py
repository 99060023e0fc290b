"""Type inference for columns: the narrowest kind that holds all values."""

from datetime import datetime
from enum import Enum
from typing import Any

from shoal.export.table import to_json

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
