"""The rows of CSV and TSV, and what their columns are called."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint
from shoal.discover.lines import MAX_LINE, Lines, LongLine
from shoal.discover.source import Refusal, shown

Row = list[str]
_WEB = ("http://", "https://")
_TOO_LONG = f"the row has more than {MAX_LINE:,} characters; is a quote left open?"


class Rows:
    """The rows of a table, blank ones left out; a refusal for what is none."""

    def __init__(self, lines: Lines, delimiter: str | None) -> None:
        self._lines, self._delimiter = lines, delimiter

    def __iter__(self) -> Iterator[Row | Refusal]:
        taken = _Taken(self._lines)
        reader = csv.reader(taken, delimiter=self._delimiter or taken.delimiter(), strict=True)
        while True:
            self._lines.begin()
            taken.size = 0
            try:
                row = next(reader)
            except StopIteration:
                return
            except (csv.Error, _RowTooLong) as error:
                yield Refusal(self._lines.where, shown(taken.last), _reason(error))
                continue
            if any(row):
                yield row


class _RowTooLong(Exception):
    pass


class _Taken:
    """Hands lines to the reader of rows, and ends a row that grows without end."""

    def __init__(self, lines: Lines) -> None:
        self._lines = iter(lines)
        self.size, self.last = 0, ""

    def __iter__(self) -> "_Taken":
        return self

    def __next__(self) -> str:
        self.last = line = next(self._lines)
        self.size += len(line)
        if isinstance(line, LongLine) or self.size > MAX_LINE:
            raise _RowTooLong
        return line

    def delimiter(self) -> str:
        """Return what stands between the cells of the first line, which is looked at and put back."""
        first = next(self._lines, "")
        self._lines = chain([first], self._lines) if first else self._lines
        if "://" in first:  # a semicolon in a URL says nothing
            return ","
        return max(",;\t", key=first.count)


def _reason(error: Exception) -> str:
    if isinstance(error, _RowTooLong):
        return _TOO_LONG
    if "field larger" in str(error):
        return f"a cell has more than {csv.field_size_limit():,} characters; is a quote left open?"
    if "unexpected end" in str(error):
        return "a quote is opened and never closed"
    return f"its quotes are not those of CSV: {error}"


class Header:
    """The names of a table's columns; a table whose first row holds a URL has numbers only."""

    def __init__(self, table: str, first: Sequence[str]) -> None:
        self.table = table
        self.is_data = any(cell.strip().lower().startswith(_WEB) for cell in first)
        self.names = [
            f"column_{number}" if self.is_data else cell.strip().lstrip("\ufeff")
            for number, cell in enumerate(first, 1)
        ]

    def index(self, key: str, column: str | int) -> int:
        """Return the place of a column that is given by its name or its number; raises InvalidSetting."""
        wanted = str(column).strip()
        if wanted in self.names:
            return self.names.index(wanted)
        if wanted.isdecimal() and len(wanted) < 6 and 1 <= int(wanted) <= len(self.names):
            return int(wanted) - 1
        raise InvalidSetting(
            key,
            f"{wanted!r} is not a column of {self.table}. {hint(wanted, self.names)} "
            f"A number from 1 to {len(self.names)} will do too.",
        )

    def first_of(self, names: Sequence[str]) -> int | None:
        """Return the place of the first of these names that is there, in any case."""
        lower = [name.lower() for name in self.names]
        return next((lower.index(name) for name in names if name in lower), None)
