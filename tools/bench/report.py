"""Figures, the bars they are held to, and how both are shown."""

import json
import os
import platform
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from typing import Any

RESULTS = Path("docs/reference/results.md")
HEADINGS = ("scenario", "figure", "unit", "bar", "met")
MARKS = {"met": "✓", "MISSED": "✗", "": ""}
PACKAGES = ("shoal", "asyncpg", "apsw", "redis", "aiormq", "uvloop", "procrastinate", "psycopg", "pgqueuer")


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach, or to stay below."""

    limit: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Tell whether the value is on the right side."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {shown(self.limit)}"


def at_least(limit: float) -> Bar:
    """Return the bar that a figure must reach."""
    return Bar(limit, at_least=True)


def at_most(limit: float) -> Bar:
    """Return the bar that a figure must not pass."""
    return Bar(limit, at_least=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    scenario: str
    value: float
    unit: str
    bar: Bar | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Say whether the bar is met; nothing when there is none."""
        if self.bar is None:
            return ""
        return "met" if self.bar.is_met(self.value) else "MISSED"

    def row(self) -> tuple[str, ...]:
        """Return the figure as the cells of a line."""
        bar = "" if self.bar is None else str(self.bar)
        return self.scenario, shown(self.value), self.unit, bar, MARKS[self.verdict]


Figures = AsyncGenerator[Figure, None]


def shown(value: float) -> str:
    """Write a number with as many digits as mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def many(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural if need be."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all does not exceed."""
    return sorted(values)[ceil(len(values) * share) - 1]


def table(figures: Sequence[Figure]) -> str:
    """Lay the figures out in columns, numbers to the right."""
    rows = [HEADINGS, *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    sides = ("<", ">", "<", "<", "<")
    cells = zip(row, sides, widths, strict=True)
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def versions() -> dict[str, str]:
    """Return the versions of everything that is measured, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return what a reader must know of the machine; the load tells whether it was quiet."""
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": [round(n, 2) for n in os.getloadavg()],
    }


def write_json(path: Path, figures: Sequence[Figure], about: Mapping[str, Any]) -> None:
    """Write everything that was found out."""
    rows = [{**asdict(figure), "verdict": figure.verdict} for figure in figures]
    path.write_text(json.dumps({**about, "figures": rows}, indent=2) + "\n")


def replace_block(page: Path, name: str, text: str) -> None:
    """Replace a generated block of a page: what stands between its comment and `<!-- end -->`."""
    block = re.compile(rf"(<!-- {name}: .*? -->\n).*?(\n<!-- end -->)", re.DOTALL)
    written, count = block.subn(lambda found: found[1] + text + found[2], page.read_text(encoding="utf-8"))
    assert count == 1, f"{page} must have one block called {name!r}"
    page.write_text(written, encoding="utf-8")
