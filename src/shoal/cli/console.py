"""Terminal output: messages on stderr, data on stdout."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.core.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_C1 = re.compile("[\x7f-\x9f]")
WIDE = ("url", "error", "info", "says")  # columns that wrap in a narrow terminal


@cache
def console() -> "Console":
    """Return the console for messages: stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a message to stderr."""
    text = "\n".join(map(printable, text.split("\n")))
    if sys.stderr.isatty():
        console().print(text, markup=False)
    else:  # rich is slow to import
        sys.stderr.write(f"{text}\n")


def print_error(message: str) -> None:
    """Print an error: what went wrong and what to type next."""
    console().print(f"[bold red]error:[/] {escaped(message)}")


def escaped(text: object) -> str:
    """Return untrusted text without control characters and markup."""
    from rich.markup import escape

    return escape(printable(str(text)))


def put_text(text: str) -> None:
    """Write untrusted text to stdout, without control characters if stdout is a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(f"{text}\n")


def put_json(record: Any) -> None:
    """Write one line of JSON to stdout."""
    line = msgspec.json.encode(record).decode()
    # JSON need not escape these, but some terminals interpret them.
    sys.stdout.write(_C1.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n")
    sys.stdout.flush()


def put_rows(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, nothing: str
) -> None:
    """Write rows to stdout: one line of JSON each, or a table of `columns`."""
    if as_json:
        for row in rows:
            put_json(row)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    listed = list(rows)
    for column in columns:
        numeric = bool(listed) and all(isinstance(row.get(column), int | float) for row in listed)
        wide = column in WIDE
        table.add_column(
            column.replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=not wide,
        )
    for row in listed:
        table.add_row(*(escaped(shown(row.get(column))) for column in columns))
    if listed:
        # A pipe has no width, and its reader wants each row on one line.
        width = None if sys.stdout.isatty() else 10_000
        Console(highlight=False, width=width).print(table)
    else:
        say(nothing)


def put_table(table: "Table") -> None:
    """Print a table to stderr; without a terminal, nothing is cut to a width."""
    if sys.stderr.isatty():
        console().print(table)
        return
    from rich.console import Console

    Console(stderr=True, highlight=False, width=10_000).print(table)


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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 page", "1,204 pages"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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
