"""The layout of every list: columns that fit the terminal, and no cell is ever cut."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

GAP = 2  # spaces between two columns
MIN_FOLDED = 18  # characters of a column that wraps
MIN_ANY = 8  # in a terminal that is too narrow even so


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
