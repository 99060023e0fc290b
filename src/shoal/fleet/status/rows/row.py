"""A row of a report: what `--json` prints, what the API returns, and the columns of its table.

A field is declared once, in a class of this package, under its public name. The API describes these classes
in its schema, and `shoal … --json` writes them as they are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

FOLDS = ("url", "error", "info", "says", "reason", "data", "why")


class TableColumns(NamedTuple):
    """The columns of a report's table; in a narrow terminal `drops` are left out in order, `folds` wrap.

    A column without a field of its name shows the field NAME_seconds as a duration, or NAME_bytes as a size.
    """

    names: Sequence[str]
    drops: Sequence[str] = ()
    folds: Collection[str] = FOLDS


# Not frozen: that costs every command 25 ms, and a row lives until it is written.
@dataclass(kw_only=True)
class Row:
    """A row of a report; its fields are those of the JSON."""

    columns: ClassVar[TableColumns] = TableColumns(())
    # Every field is in every response, also one with a default.
    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"json_schema_serialization_defaults_required": True}

    @classmethod
    def of(cls, *sources: object, **given: Any) -> Self:
        """Return a row with the given fields, and each other one from the first source that has it."""
        found = {
            each.name: source
            for each in fields(cls)
            for source in reversed(sources)
            if hasattr(source, each.name)
        }
        return cls(**{name: _plain(getattr(source, name)) for name, source in found.items()} | given)

    def cells(self) -> dict[str, Any]:
        """Return what a table shows instead of the fields, by column."""
        return {}


@dataclass(kw_only=True)
class RowOfRun(Row):
    run_id: str


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: a time as text to the second, a word as text, a mapping as a dict."""
    match value:
        case datetime():
            return value.isoformat(timespec="seconds")
        case str():
            return str(value)
        case Mapping():
            return dict(value)
        case tuple():
            return list(value)
        case _:
            return value


def fields_of(row: Any) -> dict[str, Any]:
    """Return the fields of a row by name; those of rows inside it stay rows."""
    return {each.name: getattr(row, each.name) for each in fields(row)}


def as_json(row: Any) -> dict[str, Any]:
    """Return a row as JSON: dicts, lists, texts and numbers."""
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found
