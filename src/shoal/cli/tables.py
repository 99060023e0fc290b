"""Tables that fit their terminal. Uses rich."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.cli.console import duration, megabytes, put_json, record_fields, say, shown
from shoal.cli.terminal import console
from shoal.core.text import printable
from shoal.fleet.status.rows.row import Row, TableColumns

GAP = 2  # spaces between two columns
MIN_FOLDED = 18  # characters of a column that wraps
MIN_ANY = 8  # in a terminal that is too narrow even so
NO_WIDTH = 10_000

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


def _value(row: Any, column: str) -> Any:
    """Return what a table shows of a row in a column, see `TableColumns`."""
    found = record_fields(row) | (row.cells() if isinstance(row, Row) else {})
    if column in found:
        return found[column]
    if f"{column}_bytes" in found:
        return megabytes(found[f"{column}_bytes"])
    return duration(found.get(f"{column}_seconds"))


def put_table(table: Table) -> None:
    """Print a table to stderr; without a terminal, nothing is cut to a width."""
    if sys.stderr.isatty():
        console().print(table)
        return

    Console(stderr=True, highlight=False, width=NO_WIDTH).print(table)
