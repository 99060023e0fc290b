"""Terminal output: messages on stderr, data on stdout as JSON or as tables that fit."""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

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
from shoal.fleet.status.rows import Row, TableColumns, fields_of

GAP = 2  # spaces between two columns
MIN_FOLDED = 18  # characters of a column that wraps
MIN_ANY = 8  # in a terminal that is too narrow even so

_C1 = re.compile("[\x7f-\x9f]")
NO_WIDTH = 10_000
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns that fit, with their widths, and those that do not."""

    widths: Mapping[str, int]
    left_out: Sequence[str]

    @property
    def width(self) -> int:
        """The width of the whole table."""
        return sum(self.widths.values()) + GAP * max(len(self.widths) - 1, 0)


def lay_out(
    cells: Mapping[str, Sequence[str]], width: int, *, drops: Sequence[str] = (), folds: Collection[str] = ()
) -> TableLayout:
    """Choose the columns and their widths; `cells` are the texts of each column.

    Columns in `drops` are left out in that order until the rest fits, where those in `folds` may wrap. If
    that is not enough, every column may wrap.
    """
    # A header may wrap between its words.
    compact = {name: _widest(*_header(name).split(), *texts) for name, texts in cells.items()}
    left_out = list[str]()

    def remaining(without: Collection[str]) -> dict[str, int]:
        return {name: size for name, size in compact.items() if name not in without}

    def fits(without: Collection[str]) -> bool:
        return _total(_least(remaining(without), folds, MIN_FOLDED)) <= width

    for name in drops:
        if fits(left_out):
            break
        if name in cells:
            left_out.append(name)
    for name in reversed(left_out):  # a narrow column may fit where a wide one was
        if fits(without := [one for one in left_out if one != name]):
            left_out = without
    chosen = remaining(left_out)
    tries = (_least(chosen, folds, MIN_FOLDED), _least(chosen, folds, MIN_ANY))
    least = next((one for one in tries if _total(one) <= width), _least(chosen, chosen, MIN_ANY))
    wanted = {name: max(cell_len(_header(name)), size) for name, size in chosen.items()}
    return TableLayout(_share(least, wanted, width), left_out)


def draw(cells: Mapping[str, Sequence[str]], layout: TableLayout, numeric: Collection[str] = ()) -> Table:
    """Return the table of a layout."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name, width in layout.widths.items():
        is_number = name in numeric
        table.add_column(
            _header(name), justify="right" if is_number else "left", overflow="fold", width=width
        )
    for row in zip(*(cells[name] for name in layout.widths), strict=True):
        table.add_row(*map(Text, row))  # rich would parse a plain str as markup
    return table


def _header(name: str) -> str:
    return name.replace("_", " ")


def _widest(*texts: str) -> int:
    return max(map(cell_len, texts), default=0) or 1


def _least(widths: Mapping[str, int], folds: Collection[str], least: int) -> dict[str, int]:
    return {name: min(width, least) if name in folds else width for name, width in widths.items()}


def _total(widths: Mapping[str, int]) -> int:
    return TableLayout(widths, ()).width


def _share(least: Mapping[str, int], wanted: Mapping[str, int], width: int) -> dict[str, int]:
    """Give the remaining width to the columns that need more, in equal parts."""
    widths, left = dict(least), width - _total(least)
    while left > 0 and (needy := [name for name in widths if widths[name] < wanted[name]]):
        part = max(left // len(needy), 1)
        for name in needy[:left]:
            more = min(part, wanted[name] - widths[name])
            widths[name] += more
            left -= more
    return widths


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
    layout = lay_out(cells, width, drops=table.drops, folds=table.folds)
    # rich cuts what is wider than its console; a terminal wraps it.
    Console(highlight=False, width=max(layout.width, 1), soft_wrap=True).print(draw(cells, layout, numeric))
    if layout.left_out:
        names = ", ".join(name.replace("_", " ") for name in layout.left_out)
        say(f"Left out in this width: {names}. To see all columns, add --wide or --json")


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
