"""The columns of a table: their names, their types, and the keys that identify a row."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from hashlib import sha256
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.table import Kind, Row, as_text, origin, row, to_json

UNNAMED = "_"
_REPLACED = "\ufffd"


class NameRules(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a database for column names."""

    max_bytes: int  # of a name
    max_columns: int  # of a table
    ignores_case: bool = False
    reserved: Collection[str] = ()


class ColumnNames:
    """Maps every field to its own column, always the same one; existing columns are reused."""

    def __init__(self, rules: NameRules, existing: Iterable[str] = ()) -> None:
        self._rules = rules
        self._existing = {self._fold(name): name for name in existing}
        self._names: dict[str, str] = {}
        self._used: set[str] = set()

    def column_for(self, field: str) -> str:
        """Return the column of a field."""
        if field not in self._names:
            name = self._new_name(field)
            self._names[field] = name
            self._used.add(self._fold(name))
        return self._names[field]

    def _new_name(self, field: str) -> str:
        plain, hashed = self._valid_name(field), hashed_name(field, self._rules.max_bytes)
        if self._existing.get(self._fold(plain)) != plain and self._fold(hashed) in self._existing:
            return self._existing[self._fold(hashed)]
        if self._fold(plain) in self._used:
            return hashed
        return self._existing.get(self._fold(plain), plain)

    def _valid_name(self, field: str) -> str:
        name = field.replace("\0", _REPLACED) or UNNAMED
        if name in self._rules.reserved:
            name = f"{name}_"
        return (
            name if _byte_length(name) <= self._rules.max_bytes else hashed_name(field, self._rules.max_bytes)
        )

    def _fold(self, name: str) -> str:
        return name.lower() if self._rules.ignores_case else name


def hashed_name(name: str, max_bytes: int, *, start: str | None = None) -> str:
    """Return a shortened name, or another start, with a hash that makes it unique; bounded in bytes."""
    mark = f"_{sha256(name.encode(errors='replace')).hexdigest()[:10]}"
    shown = (name if start is None else start).replace("\0", _REPLACED)
    return shown.encode(errors="replace")[: max_bytes - len(mark)].decode(errors="ignore") + mark


def quote_name(name: str) -> str:
    """Return a name quoted for SQL, whatever it contains."""
    return '"' + name.replace("\0", _REPLACED).replace('"', '""') + '"'


def quote_names(names: Iterable[str]) -> str:
    """Return a list of names quoted for SQL."""
    return ", ".join(map(quote_name, names))


def conflict_action(columns: Iterable[str], key: Collection[str]) -> str:
    """Return what an upsert does with the columns of a row that exists."""
    changes = [f"{quote_name(name)} = excluded.{quote_name(name)}" for name in columns if name not in key]
    return f"DO UPDATE SET {', '.join(changes)}" if changes else "DO NOTHING"


def _byte_length(name: str) -> int:
    return len(name.encode(errors="replace"))


ITEM_ID = "_item_id"
ITEM_KEY = ("_task_id", ITEM_ID)  # the default: every item is its own row
MAX_KEY_BYTES = 2_000  # a PostgreSQL index allows 2,704
_SHORT = 50
_ENVELOPE = ("_url", "_step", "_task_id", "_stored_at")


class KeyedRows:
    """Turns items into rows, and checks that they have a key.

    The origin of an item is never taken from its data: a page could choose the row that it replaces.
    """

    def __init__(self, key: Sequence[str], columns: Sequence[str] | None, *, envelope: bool) -> None:
        self.key = tuple(dict.fromkeys(key)) or ITEM_KEY
        self._chosen = None if columns is None else {*columns, *self.key}
        self._origin_names = {*self.key, *_ENVELOPE} if envelope else set(self.key)
        self._needs_origin = not self._origin_names.isdisjoint((*_ENVELOPE, ITEM_ID))
        self._fields: dict[str, None] = {}

    def row(self, item: StoredItem) -> Row | None:
        """Return an item as a mapping of names to values; None if it lacks the key."""
        found = row(item)
        if self._needs_origin:
            own = {name: value for name, value in _origin(item).items() if name in self._origin_names}
            found = {**own, **found, **own}
        if not self._has_key(found):
            self._remember_fields(found)
            return None
        return found if self._chosen is None else _only(found, self._chosen)

    def missing_key_error(self) -> InvalidSetting:
        """Return the error for a key that no item has."""
        missing = next((name for name in self.key if name not in self._fields), self.key[0])
        close = get_close_matches(missing, self._fields, n=1)
        known = ", ".join(list(self._fields)[:10])
        hint = f"Did you mean {close[0]!r}?" if close else f"Available fields: {known}"
        return InvalidSetting("--key", f"no item has the field {missing!r}. {hint}")

    def _has_key(self, found: Row) -> bool:
        values = [found.get(name) for name in self.key]
        return None not in values and sum(map(_size, values)) <= MAX_KEY_BYTES

    def _remember_fields(self, found: Row) -> None:
        if len(self._fields) < 1_000:
            self._fields.update(dict.fromkeys(found))


def _origin(item: StoredItem) -> dict[str, Any]:
    return {**origin(item), ITEM_ID: item.id}


def _only(found: Row, chosen: set[str]) -> Row:
    return {name: value for name, value in found.items() if name in chosen}


def _size(value: Any) -> int:
    """Return the size of a value in bytes, or a cheap upper bound for a short text."""
    if isinstance(value, str) and len(value) < _SHORT:
        return 4 * len(value)
    return len(as_text(value).encode(errors="replace"))


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
