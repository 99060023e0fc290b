"""Names that a database can give to columns, for fields that may be called anything."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256

UNNAMED = "_"
_REPLACED = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRules:
    """What a database allows in the name of a column."""

    longest: int  # bytes
    most: int  # columns of a table
    ignores_case: bool = False
    reserved: Collection[str] = ()


class ColumnNames:
    """Gives every field a column of its own, and the same one each time; those that are there keep theirs."""

    def __init__(self, rules: NameRules, there: Iterable[str] = ()) -> None:
        self._rules = rules
        self._there = {self._folded(name): name for name in there}
        self._of: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, field: str) -> str:
        """Return the column of a field."""
        if field not in self._of:
            name = self._new(field)
            self._of[field] = name
            self._taken.add(self._folded(name))
        return self._of[field]

    def _new(self, field: str) -> str:
        plain, marked = self._allowed(field), marked_name(field, self._rules.longest)
        if self._there.get(self._folded(plain)) != plain and self._folded(marked) in self._there:
            return self._there[self._folded(marked)]
        if self._folded(plain) in self._taken:
            return marked
        return self._there.get(self._folded(plain), plain)

    def _allowed(self, field: str) -> str:
        name = field.replace("\0", _REPLACED) or UNNAMED
        if name in self._rules.reserved:
            name = f"{name}_"
        return name if _size(name) <= self._rules.longest else marked_name(field, self._rules.longest)

    def _folded(self, name: str) -> str:
        return name.lower() if self._rules.ignores_case else name


def marked_name(name: str, longest: int, *, start: str | None = None) -> str:
    """Return the beginning of a name, or another start, and a mark that no other has; bounded in bytes."""
    mark = f"_{sha256(name.encode(errors='replace')).hexdigest()[:10]}"
    shown = (name if start is None else start).replace("\0", _REPLACED)
    return shown.encode(errors="replace")[: longest - len(mark)].decode(errors="ignore") + mark


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever it holds."""
    return '"' + name.replace("\0", _REPLACED).replace('"', '""') + '"'


def _size(name: str) -> int:
    return len(name.encode(errors="replace"))
