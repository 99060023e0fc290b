"""URL files with columns: which cell is the URL, and how the others are used."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import NOTHING, Task
from shoal.core.values import read_priority, read_text
from shoal.discover.files.lines import Lines
from shoal.discover.files.rows import Row, Rows, TableHeader
from shoal.discover.source import Found, Refusal, check_url, make_refusal

NO_URL = "-"

URL_NAMES = ("url", "link", "href")


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The column for each part of a task, by name or by number from 1; for JSON lines, the field.

    `url` defaults to the column called url, link or href, or else the only one; "-" means that no column
    holds a URL, so each row is a payload. `payload` names columns, or True for all columns not named here;
    by default a table gives no payload, and a record gives all its other fields.
    """

    url: str | int | None = None
    partition: str | int | None = None
    priority: str | int | None = None
    key: str | int | None = None
    payload: bool | Sequence[str | int] | None = None
    delimiter: str | None = None


DEFAULT_COLUMNS = Columns()


def read_table(lines: Lines, step: str, columns: Columns, delimiter: str | None) -> Iterator[Found]:
    """Yield a task for every row; raises InvalidSetting if a column does not exist."""
    plan: _ColumnPlan | None = None
    for row in Rows(lines, columns.delimiter or delimiter):
        if isinstance(row, Refusal):
            yield row
        elif plan is None:
            header = TableHeader(lines.name, row)
            plan = _ColumnPlan(header, columns)
            if header.is_data:
                yield _read_row(plan, row, step, lines)
        else:
            yield _read_row(plan, row, step, lines)


def _read_row(plan: "_ColumnPlan", row: Row, step: str, lines: Lines) -> Found:
    try:
        return plan.task(row, step)
    except (ValueError, InvalidInput) as error:
        return make_refusal(lines.where, plan.url_cell(row), error)


class _ColumnPlan:
    """Which part of a task each cell of a row becomes."""

    def __init__(self, header: TableHeader, columns: Columns) -> None:
        self._width = len(header.names)
        self._url = _url_column(header, columns)
        self._fields = {
            name: (header.index(name, column), read)
            for name, column, read in (
                ("partition", columns.partition, read_text),
                ("priority", columns.priority, read_priority),
                ("key", columns.key, read_text),
            )
            if column is not None
        }
        self._payload = self._payload_columns(header, columns)

    def task(self, row: Row, step: str) -> Task:
        """Return the task of a row; raises ValueError or InvalidInput."""
        if len(row) != self._width:
            self._check_width(row)
        payload = {name: row[index] for index, name in self._payload} if self._payload else NOTHING
        fields = self._read_fields(row) if self._fields else {}
        url = None if self._url is None else check_url(row[self._url].strip())
        return Task(url=url, step=step, payload=payload, **fields)

    def url_cell(self, row: Row) -> str:
        """Return the text that best identifies a row: its URL cell, or the whole row."""
        if self._url is not None and self._url < len(row):
            return row[self._url]
        return ",".join(row)

    def _read_fields(self, row: Row) -> dict[str, Any]:
        cells = ((name, row[index].strip(), read) for name, (index, read) in self._fields.items())
        return {name: read(name, cell) for name, cell, read in cells if cell}

    def _payload_columns(self, header: TableHeader, columns: Columns) -> list[tuple[int, str]]:
        wanted = columns.payload
        if wanted and not isinstance(wanted, bool):
            indexes = [header.index("payload", column) for column in wanted]
            return [(index, header.names[index]) for index in indexes]
        if not wanted and self._url is not None:
            return []
        used = {self._url, *(index for index, _ in self._fields.values())}
        return [(index, name) for index, name in enumerate(header.names) if index not in used and name]

    def _check_width(self, row: Row) -> None:
        if len(row) < self._width:
            row.extend([""] * (self._width - len(row)))
        if any(row[self._width :]):
            # Otherwise an unquoted URL with a comma would silently lose its end.
            raise ValueError(
                f"it has {len(row)} cells, the first row {self._width}; put quotes around a cell with a comma"
            )


def _url_column(header: TableHeader, columns: Columns) -> int | None:
    if columns.url == NO_URL:
        return None
    if columns.url is not None:
        return header.index("column", columns.url)
    named = header.first_of(URL_NAMES)
    if named is not None:
        return named
    if len(header.names) == 1:
        return 0
    listed = ", ".join(header.names[:20])
    raise InvalidSetting(
        "column",
        f"is not clear: {header.table} has {listed}. Name the one with the URLs: --column {header.names[0]}",
    )
