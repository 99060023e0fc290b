"""What the columns of a database hold, and which values fit them without loss."""

from enum import Enum
from typing import Any

from shoal.export.kinds import Kind, as_text
from shoal.export.table import nested


class Holds(Enum):
    """What a column of a database can hold."""

    WHOLE = "whole numbers"
    FRACTION = "numbers of limited precision"
    NUMBER = "numbers of any size"
    TRUTH = "true or false"
    TEXT = "text"
    JSON = "any value, as JSON"
    CAST = "what the server reads from text: dates and the like"
    NUMERIC = "numbers, and whatever is no number as it is"
    ANYTHING = "anything"


_NUMBERS = frozenset((Kind.WHOLE, Kind.LONG, Kind.FRACTION))
_ALL = frozenset(Kind)
_FITTING = {
    Holds.WHOLE: frozenset((Kind.WHOLE, Kind.LONG)),
    Holds.FRACTION: frozenset((Kind.WHOLE, Kind.FRACTION)),
    Holds.NUMBER: _NUMBERS,
    Holds.TRUTH: frozenset((Kind.TRUTH,)),
    Holds.TEXT: _ALL,
    Holds.JSON: _ALL,
    Holds.CAST: frozenset((Kind.TEXT, Kind.MOMENT)),
    # Text is refused: SQLite would make 7 of "007".
    Holds.NUMERIC: _NUMBERS | {Kind.TRUTH},
    Holds.ANYTHING: _ALL,
}


def fits(kind: Kind, holds: Holds) -> bool:
    """Tell whether all values of a kind can go into a column without loss."""
    return kind is Kind.NOTHING or kind in _FITTING[holds]


def as_held(value: Any, holds: Holds) -> Any:
    """Return a value that fits as the driver is to be told."""
    if value is None:
        return None
    match holds:
        case Holds.JSON:
            return nested(value)
        case Holds.TEXT | Holds.CAST | Holds.NUMBER:
            return as_text(value)
        case Holds.FRACTION:
            return float(value)
        case Holds.WHOLE | Holds.TRUTH:
            return value
        case Holds.NUMERIC | Holds.ANYTHING:
            return value if isinstance(value, (int, float, str)) else as_text(value)
