"""What was found out: a table for the terminal, everything as JSON, and a page for the documentation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.bench.crawl.chart import chart
from tools.bench.crawl.profile import profile_markdown
from tools.bench.crawl.summary import CALM, TASKS, Row, figures
from tools.bench.report import Figure, many, shown
from tools.bench.report import table as figure_table

DOCS = Path("docs/reference")
CHART = "benchmarks-crawl.svg"
PAGE = "benchmarks-crawl.md"
CAUTION = """
> The machine was in use when this was measured: look at the CPU times, not at the rates or at the bars.
"""
HEADINGS = (
    "",
    "pages/s crawling",
    "start to end",
    "CPU ms/page",
    "store ms/page",
    "memory MB",
    "survives a crash",
)


def table(rows: Sequence[Row]) -> str:
    """Return the rows in columns, a block a task, and the bars below."""
    blocks = [_block(task, [row for row in rows if row.task == task]) for task in TASKS]
    return "\n\n".join([block for block in blocks if block] + [figure_table(figures(rows))])


def write_json(path: Path, rows: Sequence[Row], heats: Sequence[Any], about: Mapping[str, Any]) -> None:
    """Write everything that was found out."""
    held = [{**asdict(figure), "verdict": figure.verdict} for figure in figures(rows)]
    found = {
        **about,
        "rows": [asdict(row) for row in rows],
        "figures": held,
        "heats": [asdict(heat) for heat in heats],
    }
    path.write_text(json.dumps(found, indent=2) + "\n")


def write_docs(source: Path, folder: Path = DOCS) -> None:
    """Make the page and its picture from the JSON of a run."""
    found = json.loads(source.read_text())
    rows = [Row(**row) for row in found["rows"]]
    (folder / CHART).write_text(chart(rows), encoding="utf-8")
    text = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    for name, value in _fillings(found, rows).items():
        text = text.replace(f"{{{{{name}}}}}", value)
    (folder / PAGE).write_text(text, encoding="utf-8")


def _fillings(found: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, str]:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return {
        "tables": "\n\n".join(
            _markdown(task, [row for row in rows if row.task == task])
            for task in TASKS
            if any(row.task == task for row in rows)
        ),
        "bars": _bars(figures(rows)),
        "profiles": profile_markdown(found.get("profiles", {})),
        "when": found["began"][:10],
        "machine": f"{machine['system'].partition('-')[0]}, {machine['cpus']} cores",
        "others": f"{max(row.others for row in rows):.1f}",
        "caution": CAUTION if any(row.others > CALM for row in rows) else "",
        "versions": versions,
        "rounds": many(found["rounds"], "round"),
        "pages": f"{found['pages']:,}",
    }


def _cells(row: Row) -> tuple[str, ...]:
    store = shown(row.store_ms) if row.store_ms else ""
    numbers = (shown(row.rate), shown(row.whole_rate), shown(row.cpu_ms), store, shown(row.memory_mb))
    return row.label, *numbers, row.survives


def _block(task: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lines = [(f"Task {task}: {TASKS[task]}", *HEADINGS[1:]), *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    sides = ("<", ">", ">", ">", ">", ">", "<")
    return "  ".join(f"{c:{s}{w}}" for c, s, w in zip(cells, sides, widths, strict=True)).rstrip()


def _markdown(task: str, rows: Sequence[Row]) -> str:
    lines = [(f"task {task}", *HEADINGS[1:]), ("---", *["--:"] * 5, "---"), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bars(found: Sequence[Figure]) -> str:
    rows = [
        (one.scenario, f"{shown(one.value)} {one.unit}", str(one.bar), one.verdict)
        for one in found
        if one.bar
    ]
    lines = [("", "found", "bar", ""), ("---", "--:", "--:", "---"), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
