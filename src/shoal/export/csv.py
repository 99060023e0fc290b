"""Comma-separated values that a spreadsheet can open without harm."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.kinds import as_text
from shoal.export.table import VALUE, check_width, misfit, named, row
from shoal.export.target import Target

# What makes a spreadsheet take a cell for a formula, in plain and in full-width form, behind what it skips.
_SKIPPED = r"[\s\x00-\x1f\u00ad\u200b-\u200f\u2060\ufeff]*"
_SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20"
_BEGINS = re.compile(rf"{_SKIPPED}[{_SIGNS}\t\r\n]")
# In many countries a spreadsheet also splits cells at semicolons or tabs, even within a cell of ours.
_BEHIND_SEPARATOR = re.compile(rf"([;\t])(?={_SKIPPED}[{_SIGNS}])")


class CsvWriter(Writer):
    """Writes a row an item; the columns are all that the survey met, or those that are asked for.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, unless `raw`.
    """

    def __init__(
        self,
        target: Target,
        *,
        columns: Sequence[str] | None = None,
        envelope: bool = False,
        raw: bool = False,
    ) -> None:
        self._target = target
        self._chosen = bool(columns)
        self._columns = dict.fromkeys(columns or ())
        self._envelope = envelope
        self._text = _as_it_is if raw else harmless
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
            self._begin(items)
        self._put([self._cells(item) for item in items])

    def close(self) -> None:
        if not self._has_header:
            self._begin([])
        self._target.commit()

    def discard(self) -> None:
        self._target.discard()

    def _begin(self, items: Sequence[StoredItem]) -> None:
        if not self._columns:
            self.survey(items)
        self._columns = self._columns or {VALUE: None}
        self._has_header = True
        self._put([[self._text(name) for name in self._columns]])

    def _cells(self, item: StoredItem) -> list[str]:
        one = row(item, envelope=self._envelope)
        if not self._chosen and not one.keys() <= self._columns.keys():
            raise misfit(item, named(one.keys() - self._columns.keys()))
        return [self._cell(one.get(name)) for name in self._columns]

    def _put(self, rows: Iterable[Sequence[str]]) -> None:
        page = io.StringIO(newline="")
        csv.writer(page).writerows(rows)
        self._target.write(page.getvalue().encode())

    def _cell(self, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value)
        if value is None:
            return ""
        if isinstance(value, (bool, int, float)):
            return str(value).lower()
        return self._text(as_text(value))


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, nor a part of it."""
    if ";" in text or "\t" in text:
        text = _BEHIND_SEPARATOR.sub(r"\1'", text)
    return f"'{text}" if _BEGINS.match(text) else text


def _as_it_is(text: str) -> str:
    return text
