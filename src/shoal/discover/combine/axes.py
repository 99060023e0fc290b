"""The axes of a combination: a name with values, or several names with rows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.discover.files.files import format_of
from shoal.discover.files.lines import Lines, LongLine
from shoal.discover.files.rows import Rows, TableHeader
from shoal.discover.source import Refusal

MAX_ROWS = 10_000_000  # of one axis, which is held in memory

Values = tuple[str, ...]


class Axis(msgspec.Struct, frozen=True):
    """One dimension: each row has a value for every name. A city with its state is one axis of two names."""

    names: tuple[str, ...]
    rows: tuple[Values, ...]

    @classmethod
    def of(cls, names: str | Sequence[str], values: Iterable[Any]) -> Self:
        """Build an axis from values, or from rows if there are several names; duplicates are dropped."""
        labels = (names,) if isinstance(names, str) else tuple(names)
        if isinstance(values, str):
            raise InvalidSetting("axis", f"{','.join(labels)} must be a list of values, got {values[:40]!r}")
        for name in labels:
            if not name.isidentifier():
                raise InvalidSetting(
                    "axis", f"{name!r} is not a name; use letters, digits and _, such as state"
                )
        rows = (
            (str(value),)
            if len(labels) == 1 and not isinstance(value, (list, tuple))
            else tuple(map(str, value))
            for value in values
        )
        return cls._from_rows(labels, rows)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read "state=states.txt", "state,city=cities.csv" (columns of a table) or "state:CA,NY" (values)."""
        head, *rest = re.split("([=:])", text, maxsplit=1)
        separator, given = rest or ("", "")
        names = tuple(name.strip() for name in head.split(","))
        if not all(names) or not given.strip():
            reason = "takes state=states.txt, state,city=cities.csv or state:CA,NY"
            raise InvalidSetting("axis", f"{reason}, not {text!r}")
        if separator == ":":
            return cls.of(names, (value.strip() for value in given.split(",") if value.strip()))
        return cls.of(names, read_values(given.strip(), names))

    @classmethod
    def _from_rows(cls, names: tuple[str, ...], rows: Iterable[Values]) -> Self:
        unique: dict[Values, None] = {}
        for row in rows:
            if len(row) != len(names):
                raise InvalidSetting(
                    "axis", f"{','.join(names)} needs {len(names)} values per row, got {row!r}"
                )
            unique[row] = None
            if len(unique) > MAX_ROWS:
                raise InvalidSetting("axis", f"{','.join(names)} has more than {MAX_ROWS:,} rows")
        if not unique:
            raise InvalidSetting("axis", f"{','.join(names)} has no values")
        return cls(names, tuple(unique))


def axes_of(given: Mapping[str | tuple[str, ...], Iterable[Any]] | Iterable[Axis]) -> tuple[Axis, ...]:
    """Return the axes of a mapping of names to values; raises InvalidSetting if two have the same name."""
    if isinstance(given, Mapping):
        axes = tuple(Axis.of(names, values) for names, values in given.items())
    else:
        axes = tuple(given)
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSetting("axis", f"{name!r} is in two axes; remove it from one")
    return axes


def read_values(path: str, names: Sequence[str]) -> Iterator[Values]:
    """Yield the rows of a file: the lines of a text file, or the named columns of a table."""
    lines = Lines(path)
    if (kind := format_of(path)) in ("csv", "tsv"):
        return _read_columns(lines, names, "\t" if kind == "tsv" else None)
    if kind != "txt":
        raise InvalidSetting("axis", f"{path} must be .txt, .csv or .tsv")
    if len(names) > 1:
        raise InvalidSetting(
            "axis", f"{','.join(names)} needs a table with these columns; {path} is a text file"
        )
    return _read_lines(lines)


def _read_lines(lines: Lines) -> Iterator[Values]:
    for line in lines:
        if isinstance(line, LongLine):
            raise InvalidInput(f"{lines.where}: {line.reason}")
        if (text := line.strip().lstrip("\ufeff")) and text[0] != "#":
            yield (text,)


def _read_columns(lines: Lines, names: Sequence[str], delimiter: str | None) -> Iterator[Values]:
    indexes: list[int] | None = None
    for row in Rows(lines, delimiter):
        if isinstance(row, Refusal):
            raise InvalidInput(f"{row.where}: {row.reason}")
        if indexes is None:
            header = TableHeader(lines.name, row)
            indexes = [header.index("axis", name) for name in names]
        else:
            values = tuple(row[index].strip() if index < len(row) else "" for index in indexes)
            if not all(values):
                raise InvalidInput(f"{lines.where}: an empty cell; every row needs {' and '.join(names)}")
            yield values
