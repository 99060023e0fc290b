"""The rows of an HTML table by the names of its columns."""

from collections.abc import Iterator

import turbohtml

from shoal.core.errors import ParseFailed
from shoal.scrape.text import text_of

MAX_COLUMNS = 1_000
MAX_CELLS = 1_000_000  # 30 bytes of HTML can span 65,534 rows and 1,000 columns

_CELLS = frozenset({"td", "th"})
_GROUPS = frozenset({"thead", "tbody", "tfoot"})


def read_table(table: "turbohtml.Element") -> list[dict[str, str]]:
    """Return the rows of a table as dicts; columns without a name have their number, from 1.

    The names are those of the first row, if all of it is header cells or it is in `thead`. A cell that spans
    several rows or columns is repeated in each.
    """
    rows = list(_rows(table))
    grid = _fill(rows)
    if not grid:
        return []
    first = [cell for cell in rows[0].children if _is_cell(cell)]
    has_names = _tag(rows[0].parent) == "thead" or all(_tag(cell) == "th" for cell in first)
    width = max(map(len, grid))
    names = _unique_names(grid[0] if has_names else [], width)
    body = grid[1:] if has_names else grid
    return [dict(zip(names, [*row, *[""] * (width - len(row))], strict=True)) for row in body]


def _rows(table: "turbohtml.Element") -> "Iterator[turbohtml.Element]":
    """Yield the rows of a table, without those of tables inside it."""
    for child in table.children:
        if _tag(child) == "tr":
            yield child  # type: ignore[misc]
        elif _tag(child) in _GROUPS:
            yield from (row for row in child.children if _tag(row) == "tr")  # type: ignore[misc]


def _fill(rows: "list[turbohtml.Element]") -> list[list[str]]:
    grid: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}  # by column: the rows that a cell still covers, and its text
    cells = 0
    for row in rows:
        texts: list[str] = []
        for cell in row.children:
            if not _is_cell(cell):
                continue
            _repeat_spanning(texts, spanning)
            text = text_of(cell)  # type: ignore[arg-type]
            below = _span(cell, "rowspan", len(rows)) - 1
            for _ in range(_span(cell, "colspan", MAX_COLUMNS)):
                if below:
                    spanning[len(texts)] = (below, text)
                texts.append(text)
            if len(texts) > MAX_COLUMNS:
                raise ParseFailed(f"The table has more than {MAX_COLUMNS:,} columns")
        _repeat_spanning(texts, spanning)
        cells += len(texts)
        if cells > MAX_CELLS:
            raise ParseFailed(f"The table has more than {MAX_CELLS:,} cells")
        grid.append(texts)
    return [texts for texts in grid if texts]


def _repeat_spanning(texts: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    """Add the cells of rows above that cover the next columns."""
    while (found := spanning.pop(len(texts), None)) is not None:
        left, text = found
        if left > 1:
            spanning[len(texts)] = (left - 1, text)
        texts.append(text)


def _unique_names(given: list[str], width: int) -> list[str]:
    names: dict[str, None] = {}
    for number in range(1, width + 1):
        plain = (given[number - 1] if number <= len(given) else "") or str(number)
        name, count = plain, 1
        while name in names:
            count += 1
            name = f"{plain} {count}"
        names[name] = None
    return list(names)


def _span(cell: object, name: str, most: int) -> int:
    text = getattr(cell, "attr", lambda name: None)(name) or ""
    # As browsers do: 0 rows are all that follow.
    if not text.isascii() or not text.strip().isdecimal():
        return 1
    found = int(text[:9])
    return most if found == 0 and name == "rowspan" else max(1, min(found, most))


def _is_cell(node: object) -> bool:
    return _tag(node) in _CELLS


def _tag(node: object) -> str:
    return node.tag if isinstance(node, turbohtml.Element) else ""
