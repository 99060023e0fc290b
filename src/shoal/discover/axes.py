"""The axes of a combination: values under a name, or rows under several names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.discover.files import format_of
from shoal.discover.lines import Lines, LongLine
from shoal.discover.rows import Header, Rows
from shoal.discover.source import Refusal

MOST_ROWS = 10_000_000  # of one axis, which is held in memory

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension: each row gives a value to every name. A city with its state is one axis of two names."""

    names: tuple[str, ...]
    rows: tuple[Values, ...]

    @classmethod
    def of(cls, names: str | Sequence[str], values: Iterable[Any]) -> Self:
        """Make an axis of values, or of rows where there are several names; each counts once."""
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
        return cls._checked(labels, rows)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read "state=states.txt", "state,city=cities.csv" (columns of a table) or "state:CA,NY" (values)."""
        named, sign, given = _split(text)
        names = tuple(name.strip() for name in named.split(","))
        if not sign or not all(names) or not given.strip():
            reason = "takes state=states.txt, state,city=cities.csv or state:CA,NY"
            raise InvalidSetting("axis", f"{reason}, not {text!r}")
        if sign == ":":
            return cls.of(names, (value.strip() for value in given.split(",") if value.strip()))
        return cls.of(names, read_values(given.strip(), names))

    @classmethod
    def _checked(cls, names: tuple[str, ...], rows: Iterable[Values]) -> Self:
        kept: dict[Values, None] = {}
        for row in rows:
            if len(row) != len(names):
                raise InvalidSetting(
                    "axis", f"{','.join(names)} needs {len(names)} values a row, got {row!r}"
                )
            kept[row] = None
            if len(kept) > MOST_ROWS:
                raise InvalidSetting("axis", f"{','.join(names)} has more than {MOST_ROWS:,} rows")
        if not kept:
            raise InvalidSetting("axis", f"{','.join(names)} has no values")
        return cls(names, tuple(kept))


def axes_of(given: Mapping[str | tuple[str, ...], Iterable[Any]] | Iterable[Axis]) -> tuple[Axis, ...]:
    """Return the axes of a mapping of names to values; raises InvalidSetting when two give the same name."""
    if isinstance(given, Mapping):
        axes = tuple(Axis.of(names, values) for names, values in given.items())
    else:
        axes = tuple(given)
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSetting("axis", f"{name!r} is given twice; let one axis have it")
    return axes


def read_values(path: str, names: Sequence[str]) -> Iterator[Values]:
    """Yield the rows of a file: the lines of a text, or the columns of these names of a table."""
    lines = Lines(path)
    if (kind := format_of(path)) in ("csv", "tsv"):
        return _columns(lines, names, "\t" if kind == "tsv" else None)
    if kind != "txt":
        raise InvalidSetting("axis", f"{path} must be .txt, .csv or .tsv")
    if len(names) > 1:
        raise InvalidSetting(
            "axis", f"{','.join(names)} needs a table with these columns; {path} is a text file"
        )
    return _values(lines)


def _values(lines: Lines) -> Iterator[Values]:
    for line in lines:
        if isinstance(line, LongLine):
            raise InvalidInput(f"{lines.where}: {line.reason}")
        if (text := line.strip().lstrip("\ufeff")) and text[0] != "#":
            yield (text,)


def _columns(lines: Lines, names: Sequence[str], delimiter: str | None) -> Iterator[Values]:
    places: list[int] | None = None
    for row in Rows(lines, delimiter):
        if isinstance(row, Refusal):
            raise InvalidInput(f"{row.where}: {row.reason}")
        if places is None:
            header = Header(lines.name, row)
            places = [header.index("axis", name) for name in names]
        else:
            values = tuple(row[place].strip() if place < len(row) else "" for place in places)
            if not all(values):
                raise InvalidInput(f"{lines.where}: an empty cell; give {' and '.join(names)} in every row")
            yield values


def _split(text: str) -> tuple[str, str, str]:
    signs = [sign for sign in "=:" if sign in text]
    sign = min(signs, key=text.index, default="")
    named, _, given = text.partition(sign) if sign else (text, "", "")
    return named, sign, given
