"""Database column types, and which values they hold without loss."""

from enum import Enum
from typing import Any

from shoal.export.kinds import Kind, as_text
from shoal.export.table import to_json


class ColumnType(Enum):
    """What a database column can hold."""

    INT = "integers"
    FLOAT = "numbers of limited precision"
    DECIMAL = "numbers of any size"
    BOOL = "booleans"
    TEXT = "text"
    JSON = "any value, as JSON"
    CAST = "what the server parses from text, such as dates"
    NUMERIC = "numbers, and other values unchanged"
    ANY = "anything"


_NUMBERS = frozenset((Kind.INT, Kind.BIGINT, Kind.FLOAT))
_ALL = frozenset(Kind)
_FITTING = {
    ColumnType.INT: frozenset((Kind.INT, Kind.BIGINT)),
    ColumnType.FLOAT: frozenset((Kind.INT, Kind.FLOAT)),
    ColumnType.DECIMAL: _NUMBERS,
    ColumnType.BOOL: frozenset((Kind.BOOL,)),
    ColumnType.TEXT: _ALL,
    ColumnType.JSON: _ALL,
    ColumnType.CAST: frozenset((Kind.TEXT, Kind.TIMESTAMP)),
    # No text: SQLite would turn "007" into 7.
    ColumnType.NUMERIC: _NUMBERS | {Kind.BOOL},
    ColumnType.ANY: _ALL,
}


def can_hold(kind: Kind, column_type: ColumnType) -> bool:
    """Whether a column holds all values of a kind without loss."""
    return kind is Kind.NULL or kind in _FITTING[column_type]


def encode_value(value: Any, column_type: ColumnType) -> Any:
    """Return a value as the driver takes it for this column."""
    if value is None:
        return None
    match column_type:
        case ColumnType.JSON:
            return to_json(value)
        case ColumnType.TEXT | ColumnType.CAST | ColumnType.DECIMAL:
            return as_text(value)
        case ColumnType.FLOAT:
            return float(value)
        case ColumnType.INT | ColumnType.BOOL:
            return value
        case ColumnType.NUMERIC | ColumnType.ANY:
            return value if isinstance(value, (int, float, str)) else as_text(value)
