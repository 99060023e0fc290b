"""What the values of a column have in common: the narrowest kind that holds them all."""

from enum import Enum
from typing import Any

from shoal.export.table import nested

_EXACT = 1 << 53  # whole numbers up to here are exact as fractions too
_LONGEST = 1 << 63


class Kind(Enum):
    """A kind of value, by its type in Arrow."""

    NOTHING = ("string", 0)
    TRUTH = ("bool_", 1)
    WHOLE = ("int64", 2)
    LONG = ("int64", 3)  # too large to stand beside fractions
    FRACTION = ("float64", 4)
    TEXT = ("string", 5)

    @property
    def arrow(self) -> str:
        """The name of the type in pyarrow."""
        return self.value[0]


_OF = {type(None): Kind.NOTHING, bool: Kind.TRUTH, float: Kind.FRACTION}
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
    if kind is Kind.TEXT:
        return nested(value)
    return float(value) if kind is Kind.FRACTION else value
