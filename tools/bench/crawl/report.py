"""What was found out: a table for the terminal, JSON, and a block of docs/reference/results.md."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.bench.crawl.chart import chart
from tools.bench.crawl.summary import CALM, TASKS, Row, figures
from tools.bench.report import RESULTS, Figure, many, replace_block, shown
from tools.bench.report import table as figure_table

BLOCK = "bench-crawl"
CHART = "benchmarks-crawl.svg"  # beside the page
CAUTION = "The machine was in use when this was measured: look at the CPU times, not at the rates."
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


def write_docs(source: Path, page: Path = RESULTS) -> None:
    """Write the tables of the page and its picture from the JSON of a run."""
    found = json.loads(source.read_text())
    rows = [Row(**row) for row in found["rows"]]
    page.with_name(CHART).write_text(chart(rows), encoding="utf-8")
    parts = [_markdown(task, [row for row in rows if row.task == task]) for task in TASKS]
    parts += [_conditions(found, rows), _missed(figures(rows))]
    replace_block(page, BLOCK, "\n\n".join(part for part in parts if part))


def _conditions(found: Mapping[str, Any], rows: Sequence[Row]) -> str:
    machine, others = found["machine"], max(row.others for row in rows)
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    text = (
        f"Measured on {found['began'][:10]}: {machine['system'].partition('-')[0]}, {machine['cpus']} cores, "
        f"of which others used up to {others:.1f} meanwhile. {many(found['rounds'], 'round')}; medians. "
        f"{versions}."
    )
    return f"{CAUTION} {text}" if others > CALM else text


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
    if not rows:
        return ""
    lines = [(f"task {task}", *HEADINGS[1:]), ("---", *["--:"] * 5, "---"), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _missed(found: Sequence[Figure]) -> str:
    missed = [
        f"{one.scenario}: {shown(one.value)} {one.unit} ({one.bar})"
        for one in found
        if one.verdict == "MISSED"
    ]
    return f"Targets missed: {'; '.join(missed)}." if missed else ""
