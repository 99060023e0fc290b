"""Bars as an SVG, written by hand: nothing to install, and a diff that can be read."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tools.bench.crawl.summary import TASKS, Row

WIDTH, LEFT, RIGHT = 820, 290, 70
BAR, GAP, HEAD = 18, 8, 46
OURS, THEIRS, LIMIT = "#0b7285", "#adb5bd", "#e9ecef"

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#212529}.head{font-weight:600;font-size:15px}"
    ".back{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){text{fill:#e9ecef}.back{fill:#161b22}}"
)


def chart(rows: Sequence[Row]) -> str:
    """Return the pages a second of every row as bars, one panel a task."""
    parts: list[str] = []
    top = 0
    for task in TASKS:
        panel = [row for row in rows if row.task == task]
        if panel:
            parts.append(_panel(task, panel, top))
            top += HEAD + len(panel) * (BAR + GAP) + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'aria-label="Pages a second of Shoal and its peers">\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{WIDTH}" height="{top}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(task: str, rows: Sequence[Row], top: int) -> str:
    # wrk only says how fast the server is; beside it, no bar could be read.
    most = max(row.rate for row in rows if row.racer != "wrk" or len(rows) == 1)
    head = (
        f'<text class="head" x="12" y="{top + 28}">Task {task}: {escape(TASKS[task])}, pages a second</text>'
    )
    bars = [_bar(row, most, top + HEAD + place * (BAR + GAP)) for place, row in enumerate(rows)]
    return "\n".join([head, *bars])


def _bar(row: Row, most: float, top: int) -> str:
    length = (WIDTH - LEFT - RIGHT) * min(row.rate / most, 1)
    colour = OURS if row.racer.startswith("shoal-") else LIMIT if row.racer == "wrk" else THEIRS
    middle = top + BAR - 5
    cut = " →" if row.rate > most else ""
    return (
        f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end">{escape(row.label)}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        f'<text x="{LEFT + length + 8:.1f}" y="{middle}">{row.rate:,.0f}{cut}</text>'
    )
