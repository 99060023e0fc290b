"""Valid column names for fields with arbitrary names."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256

UNNAMED = "_"
_REPLACED = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRules:
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


def _byte_length(name: str) -> int:
    return len(name.encode(errors="replace"))
