"""Terminal output: messages on stderr, data on stdout as JSON or as tables that fit."""

import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TextIO

import msgspec
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shoal.core.errors import InvalidInput
from shoal.core.text import printable
from shoal.core.values import counted as counted
from shoal.fleet.status.rows.row import Row, TableColumns, fields_of
from shoal.fleet.telemetry.logs import LogStream, Stream, descriptor_of

GAP = 2  # spaces between two columns
MIN_FOLDED = 18  # characters of a column that wraps
MIN_ANY = 8  # in a terminal that is too narrow even so

_C1 = re.compile("[\x7f-\x9f]")
NO_WIDTH = 10_000
MEGABYTE = 1 << 20


Cells = Mapping[str, Sequence[str]]  # the texts of each column


def choose_columns(
    cells: Cells, width: int, *, drops: Sequence[str] = (), folds: Collection[str] = ()
) -> list[str]:
    """Return the columns that are shown in a width.

    Columns in `drops` are left out in that order until the rest fits, where those in `folds` may wrap.
    """
    left_out = list[str]()
    for name in drops:
        if _fits(cells, width, left_out, folds):
            break
        if name in cells:
            left_out.append(name)
    for name in reversed(left_out):  # a narrow column may fit where a wide one was
        if _fits(cells, width, without := [one for one in left_out if one != name], folds):
            left_out = without
    return [name for name in cells if name not in left_out]


def _fits(
    cells: Cells, width: int, without: Collection[str], folds: Collection[str], least: int = MIN_FOLDED
) -> bool:
    widths = [
        min(wide, least) if name in folds else wide
        for name, texts in cells.items()
        if name not in without and (wide := max(map(cell_len, (_header(name), *texts))))
    ]
    return sum(widths) + GAP * (len(widths) - 1) <= width


def draw(cells: Cells, width: int, *, folds: Collection[str] = (), numeric: Collection[str] = ()) -> Table:
    """Return a table that fits a width: columns in `folds` wrap, or all of them if that is not enough."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    is_wide = _fits(cells, width, (), folds, least=MIN_ANY)
    for name in cells:
        justify: Literal["left", "right"] = "right" if name in numeric else "left"
        table.add_column(
            Text(_header(name)), justify=justify, overflow="fold", no_wrap=is_wide and name not in folds
        )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))  # rich would parse a plain str as markup, as above
    return table


def _header(name: str) -> str:
    return printable(name.replace("_", " "))  # a page may have chosen it: the columns of a table


class MessageStream(io.TextIOBase):
    """Stands in for stderr while a command works: a reader that stalls loses messages, and stops nothing.

    The process that shows messages also renews the leases of its workers, so it must not wait for a reader.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._stream = file, LogStream(Stream.STDERR)

    @property
    def encoding(self) -> str:  # type: ignore[override]  # which has no setter here
        return self._file.encoding

    def isatty(self) -> bool:
        return self._file.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Write a message as soon as the reader takes it."""
        self._stream.write_bytes(text.encode(self.encoding, "backslashreplace"))
        return len(text)

    def drain(self) -> None:
        """Wait until the reader has taken everything."""
        self._stream.close(timeout=None)


@contextmanager
def messages_without_waiting() -> Iterator[None]:
    """Let no message of this block wait for the reader of stderr; wait for it at the end."""
    before = sys.stderr
    if descriptor_of(before) is None:
        yield
        return
    sys.stderr = stream = MessageStream(before)
    try:
        yield
    finally:
        sys.stderr = before
        stream.drain()


@cache
def console() -> "Console":
    """Return the console for messages: stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a message to stderr."""
    text = "\n".join(map(printable, text.split("\n")))
    if sys.stderr.isatty():
        console().print(text, markup=False)
    else:  # rich is slow to import
        sys.stderr.write(f"{text}\n")


def put_message(text: str) -> None:
    """Write a message as one line of JSON to stderr."""
    put_line({"message": text})


def put_line(record: Mapping[str, Any]) -> None:
    """Write one line of JSON to stderr, beside the data on stdout."""
    sys.stderr.write(msgspec.json.encode(record).decode() + "\n")


def print_error(message: str) -> None:
    """Print an error: what went wrong and what to type next."""
    console().print(f"[bold red]error:[/] {escaped(message)}")


def confirm(question: str) -> None:
    """Ask on stderr, so that stdout has data only; raises Abort, or InvalidInput if nobody can reply."""
    sys.stderr.write(f"{printable(question)} [y/N]: ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply:
        sys.stderr.write("\n")
        raise InvalidInput("Nothing was changed: there is no terminal to confirm it. Add --yes")
    if reply.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def escaped(text: object) -> str:
    """Return untrusted text without control characters and markup."""
    return escape(printable(str(text)))


def put_text(text: str) -> None:
    """Write untrusted text to stdout, without control characters if stdout is a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(f"{text}\n")


def put_json(record: Any, **more: Any) -> None:
    """Write a row of a report, with more fields behind its own, as one line of JSON to stdout."""
    line = msgspec.json.encode(_fields(record) | more if more else record).decode()
    # JSON need not escape these, but some terminals interpret them.
    sys.stdout.write(_C1.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n")
    sys.stdout.flush()


def put_rows(
    rows: Iterable[Any],
    table: TableColumns,
    *,
    as_json: bool,
    nothing: str,
    wide: bool = False,
    **more: Any,
) -> None:
    """Write the rows of a report to stdout: one line of JSON each, with `more` fields, or a table."""
    if as_json:
        for row in rows:
            put_json(row, **more)
        return
    listed = list(rows)
    if not listed:
        say(nothing)
        return

    values = {column: [_value(row, column) for row in listed] for column in table.names}
    cells = {column: [printable(shown(value)) for value in found] for column, found in values.items()}
    numeric = {
        column for column, found in values.items() if all(isinstance(value, int | float) for value in found)
    }
    # A pipe has no width, and its reader wants each row on one line.
    width = Console().width if sys.stdout.isatty() and not wide else NO_WIDTH
    chosen = {
        name: cells[name] for name in choose_columns(cells, width, drops=table.drops, folds=table.folds)
    }
    drawn = draw(chosen, width, folds=table.folds, numeric=numeric)
    Console(highlight=False, width=width, soft_wrap=True).print(drawn)
    if len(chosen) < len(cells):
        left_out = ", ".join(_header(name) for name in table.drops if name in cells and name not in chosen)
        say(f"Left out in this width: {left_out}. To see all columns, add --wide or --json")


def _fields(row: Any) -> dict[str, Any]:
    return dict(row) if isinstance(row, Mapping) else fields_of(row)


def _value(row: Any, column: str) -> Any:
    """Return what a table shows of a row in a column, see `TableColumns`."""
    found = _fields(row) | (row.cells() if isinstance(row, Row) else {})
    if column in found:
        return found[column]
    if f"{column}_bytes" in found:
        return megabytes(found[f"{column}_bytes"])
    return duration(found.get(f"{column}_seconds"))


def put_table(table: "Table") -> None:
    """Print a table to stderr; without a terminal, nothing is cut to a width."""
    if sys.stderr.isatty():
        console().print(table)
        return

    Console(stderr=True, highlight=False, width=NO_WIDTH).print(table)


def shown(value: Any) -> str:
    """Return a value formatted for a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)


def size_text(count: int) -> str:
    """Return a number of bytes in KB or MB."""
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} KB"


def megabytes(count: Any) -> str:
    """Return a number of bytes in megabytes."""
    return f"{count / MEGABYTE:,.0f} MB" if isinstance(count, int) else "-"


def duration(seconds: float | None) -> str:
    """Return a duration in at most two units: "3 s", "2 min 10 s", "4 h 5 min"."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
