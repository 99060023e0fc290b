"""CSV files that are safe to open in a spreadsheet."""

import csv
import io
import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.core.text import shorten
from shoal.export.contract import ExportOptions, Writer
from shoal.export.table import as_text, check_width, describe_columns, mismatch_error, row
from shoal.export.target import OutputTarget

# Characters that make a spreadsheet treat a cell as a formula, also full-width, after what it skips.
_SKIPPED = r"[\s\x00-\x1f\u00ad\u200b-\u200f\u2060\ufeff]*"
_FORMULA_CHARS = r"=+\-@\uff1d\uff0b\uff0d\uff20"
_BEGINS = re.compile(rf"{_SKIPPED}[{_FORMULA_CHARS}\t\r\n]")
# In many locales a spreadsheet also splits cells at semicolons or tabs, even within one of our cells.
_BEHIND_SEPARATOR = re.compile(rf"([;\t])(?={_SKIPPED}[{_FORMULA_CHARS}])")

MAX_HEADER = 1 << 20  # bytes
log = logging.getLogger(__name__)


class CsvWriter(Writer):
    """Writes one row per item; the columns are those given, else all that the survey found.

    Without items and columns the file is empty, without a header.

    A text that a spreadsheet would run as a formula gets a leading apostrophe, unless `raw`.
    """

    def __init__(self, target: OutputTarget, options: ExportOptions) -> None:
        self._target = target
        # Of a file that is appended to: the items must have the same columns.
        self._existing = read_header(target.name) if options.appends else None
        self._chosen = bool(options.columns)
        self._columns = dict.fromkeys(options.columns or ())
        self._envelope = options.envelope
        self._text = str if options.raw else escape_formula
        self._has_header = False
        self.needs_survey = not self._chosen

    def survey(self, items: Sequence[StoredItem]) -> None:
        for item in items:
            one = row(item, envelope=self._envelope)
            if not one.keys() <= self._columns.keys():
                self._columns |= dict.fromkeys(one)
                check_width(self._columns)

    def write(self, items: Sequence[StoredItem]) -> None:
        if not self._has_header:
            self._write_header(items)
        self._write_rows([self._cells(item) for item in items])

    def close(self) -> None:
        if not self._has_header:
            self._write_header([])
        self._target.commit()

    def discard(self) -> None:
        self._target.discard()

    def _write_header(self, items: Sequence[StoredItem]) -> None:
        if not self._columns:
            self.survey(items)
        self._has_header = True
        if self._existing is not None:
            self._use_existing_header()
            return
        if self._columns:
            self._write_rows([[self._text(name) for name in self._columns]])
        else:
            log.warning("%s has no header, because no item has a column", self._target.name)

    def _use_existing_header(self) -> None:
        """Write in the order of the columns of the file; raises InvalidSetting if it lacks some."""
        header = list(self._existing or ())
        names = {self._text(name): name for name in self._columns}
        if missing := [name for text, name in names.items() if text not in header]:
            raise InvalidSetting(
                "--append",
                f"needs the columns of the file, and {self._target.name} has no {missing[0]!r}: its header "
                f"is {shorten(','.join(header))}. Choose another file, or add --overwrite to replace it",
            )
        self._columns = {names.get(text, text): None for text in header}

    def _cells(self, item: StoredItem) -> list[str]:
        one = row(item, envelope=self._envelope)
        if not self._chosen and not one.keys() <= self._columns.keys():
            raise mismatch_error(item, describe_columns(one.keys() - self._columns.keys()))
        return [self._cell(one.get(name)) for name in self._columns]

    def _write_rows(self, rows: Iterable[Sequence[str]]) -> None:
        buffer = io.StringIO(newline="")
        csv.writer(buffer).writerows(rows)
        self._target.write(buffer.getvalue().encode())

    def _cell(self, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value)
        if value is None:
            return ""
        if isinstance(value, (bool, int, float)):
            return str(value).lower()
        return self._text(as_text(value))


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet treats as a formula, not even in part."""
    if ";" in text or "\t" in text:
        text = _BEHIND_SEPARATOR.sub(r"\1'", text)
    return f"'{text}" if _BEGINS.match(text) else text


def read_header(path: str) -> list[str] | None:
    """Return the header of a CSV file that can be appended to, None if it is empty; raises InvalidSetting."""
    with Path(path).open("rb") as file:
        first = file.readline(MAX_HEADER)
        if not first:
            return None
        file.seek(-1, os.SEEK_END)
        is_whole = file.read(1) == b"\n"
    try:
        (header,) = csv.reader([first.decode("utf-8-sig")], strict=True)
    except (ValueError, csv.Error):
        header = []
    if not header or not is_whole:
        what = "does not end with a whole row" if header else "has no header that can be read"
        raise InvalidSetting(
            "--append", f"adds rows to a CSV file, and {path} {what}. Choose another file, or add --overwrite"
        )
    return header
