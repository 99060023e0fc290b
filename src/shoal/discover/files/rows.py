"""The rows of CSV and TSV files, and the names of their columns."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint
from shoal.discover.files.lines import MAX_LINE, Lines, LongLine
from shoal.discover.source import Refusal, shown

Row = list[str]
_WEB = ("http://", "https://")
_TOO_LONG = f"the row has more than {MAX_LINE:,} characters; is a quote left open?"


class Rows:
    """The rows of a table without blank ones; a refusal for each invalid row."""

    def __init__(self, lines: Lines, delimiter: str | None) -> None:
        self._lines, self._delimiter = lines, delimiter

    def __iter__(self) -> Iterator[Row | Refusal]:
        feeder = _LineFeeder(self._lines)
        reader = csv.reader(feeder, delimiter=self._delimiter or feeder.delimiter(), strict=True)
        while True:
            self._lines.begin_record()
            feeder.size = 0
            try:
                row = next(reader)
            except StopIteration:
                return
            except (csv.Error, _RowTooLong) as error:
                yield Refusal(self._lines.where, shown(feeder.last), _describe(error))
                continue
            if any(row):
                yield row


class _RowTooLong(Exception):
    pass


class _LineFeeder:
    """Feeds lines to the CSV reader, and stops a row that grows beyond the limit."""

    def __init__(self, lines: Lines) -> None:
        self._lines = iter(lines)
        self.size, self.last = 0, ""

    def __iter__(self) -> "_LineFeeder":
        return self

    def __next__(self) -> str:
        self.last = line = next(self._lines)
        self.size += len(line)
        if isinstance(line, LongLine) or self.size > MAX_LINE:
            raise _RowTooLong
        return line

    def delimiter(self) -> str:
        """Return the delimiter of the first line, which is read and put back."""
        first = next(self._lines, "")
        self._lines = chain([first], self._lines) if first else self._lines
        if "://" in first:  # a semicolon in a URL is not a delimiter
            return ","
        return max(",;\t", key=first.count)


def _describe(error: Exception) -> str:
    if isinstance(error, _RowTooLong):
        return _TOO_LONG
    if "field larger" in str(error):
        return f"a cell has more than {csv.field_size_limit():,} characters; is a quote left open?"
    if "unexpected end" in str(error):
        return "a quote is not closed"
    return f"its quotes are not valid CSV: {error}"


class TableHeader:
    """The column names of a table; a table whose first row holds a URL has no header, only numbers."""

    def __init__(self, table: str, first: Sequence[str]) -> None:
        self.table = table
        self.is_data = any(cell.strip().lower().startswith(_WEB) for cell in first)
        self.names = [
            f"column_{number}" if self.is_data else cell.strip().lstrip("\ufeff")
            for number, cell in enumerate(first, 1)
        ]

    def index(self, key: str, column: str | int) -> int:
        """Return the index of a column given by name or number; raises InvalidSetting."""
        wanted = str(column).strip()
        if wanted in self.names:
            return self.names.index(wanted)
        if wanted.isdecimal() and len(wanted) < 6 and 1 <= int(wanted) <= len(self.names):
            return int(wanted) - 1
        raise InvalidSetting(
            key,
            f"{wanted!r} is not a column of {self.table}. {hint(wanted, self.names)} "
            f"A number from 1 to {len(self.names)} also works.",
        )

    def first_of(self, names: Sequence[str]) -> int | None:
        """Return the index of the first of these names that exists, ignoring case."""
        lower = [name.lower() for name in self.names]
        return next((lower.index(name) for name in names if name in lower), None)
