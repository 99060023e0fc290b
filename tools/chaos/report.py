"""What a campaign has come to: a table for the terminal, everything as JSON, a block of
docs/reference/results.md.
"""

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.bench.report import RESULTS, many, replace_block
from tools.chaos.history import History
from tools.chaos.judge import judge, recoveries, repeats
from tools.chaos.pace import hasty, short_gaps, shortest_gap

BLOCK = "chaos"
HEADINGS = (
    *("queue", "pages", "faults", "lost", "doubled", "culled", "extra fetches", "stale refused"),
    *("shortest gap", "recovery", "drained", "verdict"),
)
SIDES = ("<", ">", "<", ">", ">", ">", ">", ">", ">", ">", ">", "<")
SHOWN = 5  # complaints of one rule, of which there may be thousands


@dataclass(frozen=True)
class Result:
    """A campaign on one queue, judged."""

    queue: str
    seed: int
    pages: int
    faults: Mapping[str, int]
    lost: int
    doubled: int
    culled: int  # workers that died though no fault struck them
    extra: int
    stale: int
    dead: int
    gap: float | None  # the shortest, as a share of the delay
    short: int  # gaps below the bar
    excused: int  # those of them in which the machine stood still
    recovery: float | None
    drained: float  # seconds from the last fault to the end
    broken: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return f"BROKEN: {', '.join(self.broken)}" if self.broken else "held"


def result(queue: str, seed: int, history: History) -> Result:
    """Judge a history, and sum it up."""
    broken, short = judge(history), len(list(short_gaps(history)))
    last = max((strike.end for strike in history.strikes), default=history.over)
    return Result(
        queue=queue,
        seed=seed,
        pages=history.site.pages,
        faults=dict(Counter(strike.kind for strike in history.strikes)),
        lost=len(broken.get("lost", ())),
        doubled=len(broken.get("doubled", ())),
        culled=len(broken.get("culled", ())),
        extra=len(list(repeats(history))),
        stale=history.stale,
        dead=len(history.letters),
        gap=shortest_gap(history),
        short=short,
        excused=short - len(list(hasty(history))),
        recovery=max((seconds for _, seconds in recoveries(history)), default=None),
        drained=max(0.0, history.over - last),
        broken=broken,
    )


def failed(queue: str, seed: int, reason: str) -> Result:
    """Return the result of a campaign that could not be carried out."""
    return Result(queue, seed, 0, {}, 0, 0, 0, 0, 0, 0, None, 0, 0, None, 0.0, {"failed": [reason]})


def table(results: Sequence[Result]) -> str:
    """Return the results in columns."""
    lines = [HEADINGS, *map(_cells, results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{c:{s}{w}}" for c, s, w in zip(cells, SIDES, widths, strict=True)).rstrip()


def _cells(one: Result) -> tuple[str, ...]:
    faults = ", ".join(f"{count} {kind}" for kind, count in one.faults.items()) or "none"
    gap = "" if one.gap is None else f"{one.gap:.3f}"
    recovery = "" if one.recovery is None else f"{one.recovery:.1f} s"
    counts = (f"{count:,}" for count in (one.lost, one.doubled, one.culled, one.extra, one.stale))
    return one.queue, f"{one.pages:,}", faults, *counts, gap, recovery, f"{one.drained:.1f} s", one.verdict


def complaints(one: Result) -> str:
    """Return what a campaign broke, a line each, and how to repeat it."""
    lines = []
    for rule, found in one.broken.items():
        lines += [f"  {rule}: {complaint}" for complaint in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"  {rule}: and {many(len(found) - SHOWN, 'more')}".replace("mores", "more"))
    return "\n".join([f"{one.queue}, --seed {one.seed}:", *lines])


def as_json(results: Sequence[Result], about: Mapping[str, Any]) -> str:
    """Return everything that was found out."""
    rows = [{**asdict(one), "verdict": one.verdict} for one in results]
    return json.dumps({**about, "queues": rows}, indent=2)


def write_page(results: Sequence[Result], about: Mapping[str, Any], page: Path = RESULTS) -> None:
    """Write the table of the page, and how it was measured."""
    gaps = "; ".join(f"{one.queue} {one.short}, {one.excused} of them excused" for one in results)
    measured = (
        f"Measured on {str(about['began'])[:10]}: {platform.system()}, {about['cpus']} cores. "
        f"{about['launchers']} launchers of {about['workers']} workers, {about['hosts']} hosts, "
        f"a delay of {about['delay']}, `per_host` {about['per_host']}, a lease of {about['lease']}. "
        f"The same again: `{about['command']}`. Gaps below 0.95 of the delay: {gaps}."
    )
    replace_block(page, BLOCK, f"{_markdown([HEADINGS, *map(_cells, results)], SIDES)}\n\n{measured}")


def _markdown(rows: Sequence[Sequence[str]], sides: Sequence[str]) -> str:
    rule = ["--:" if side == ">" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
