"""What the values of a column have in common: the narrowest kind that holds them all."""

from datetime import datetime
from enum import Enum
from typing import Any

from shoal.export.table import nested

_EXACT = 1 << 53  # whole numbers up to here are exact as fractions too
_LONGEST = 1 << 63


class Kind(Enum):
    """A kind of value, in the words of a message."""

    NOTHING = "nothing"
    TRUTH = "true or false"
    WHOLE = "whole numbers"
    LONG = "large whole numbers"  # too large to stand beside fractions
    FRACTION = "numbers with fractions"
    MOMENT = "moments"
    NESTED = "lists or mappings"
    TEXT = "text"


_OF = {
    type(None): Kind.NOTHING,
    bool: Kind.TRUTH,
    float: Kind.FRACTION,
    datetime: Kind.MOMENT,
    list: Kind.NESTED,
    dict: Kind.NESTED,
}
_BOTH = {
    frozenset((Kind.WHOLE, Kind.LONG)): Kind.LONG,
    frozenset((Kind.WHOLE, Kind.FRACTION)): Kind.FRACTION,
}


def kind_of(value: Any) -> Kind:
    """Return the narrowest kind that holds a value."""
    if type(value) is not int:
        return _OF.get(type(value), Kind.TEXT)
    if -_EXACT <= value <= _EXACT:
        return Kind.WHOLE
    return Kind.LONG if -_LONGEST <= value < _LONGEST else Kind.TEXT


def wider(one: Kind, other: Kind) -> Kind:
    """Return the narrowest kind that holds what both hold."""
    if one is other or other is Kind.NOTHING:
        return one
    if one is Kind.NOTHING:
        return other
    return _BOTH.get(frozenset((one, other)), Kind.TEXT)


def fitted(value: Any, kind: Kind) -> Any:
    """Return a value as its column holds it; what is no text becomes JSON in a column of text."""
    if value is None or isinstance(value, str):
        return value
    if kind in (Kind.TEXT, Kind.NESTED):
        return as_text(value)
    return float(value) if kind is Kind.FRACTION else value


def as_text(value: Any) -> str:
    """Return any value as text; what is neither text nor a moment becomes JSON."""
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime) else nested(value)
