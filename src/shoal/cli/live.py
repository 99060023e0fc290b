"""What a person sees while a run goes on."""

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from shoal.cli.console import console, duration, escaped, say
from shoal.core.model import Run
from shoal.fleet.crew import Crew
from shoal.fleet.progress import Snapshot
from shoal.worker.tally import most_of

LINE_EVERY = 10.0  # seconds, where there is no terminal


class Show(AbstractContextManager["Show"]):
    """Shows a run as it goes on: a live view in a terminal, a line now and then elsewhere."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._terminal = console().is_terminal and not as_json
        self._as_json = as_json
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=36),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            console=console(),
        )
        self._task = self._bar.add_task("", total=None)
        self._live: Live | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            self._live = Live(self._bar, console=console(), refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def started(self, run: Run, crew: Crew) -> None:
        """Say what begins."""
        self._bar.update(self._task, description=escaped(run.scraper))
        if not self._as_json:
            say(f"Run {run.id}")

    def saw(self, snapshot: Snapshot, crew: Crew) -> None:
        """Show how the run is now."""
        if self._live:
            stats = snapshot.stats
            done = stats.tasks - stats.remaining
            self._bar.update(self._task, completed=done, total=stats.tasks or None)
            self._live.update(Group(self._bar, *view(snapshot, crew)))
        elif time.monotonic() - self._last_line >= LINE_EVERY:
            self._last_line = time.monotonic()
            self._line(snapshot)

    def said(self, text: str) -> None:
        """Pass on what happened to a worker."""
        if not self._as_json:
            console().print(f"[yellow]{escaped(text)}")

    def printed(self, line: str) -> None:
        """Pass on what a step printed."""
        console().print(escaped(line))

    def _line(self, snapshot: Snapshot) -> None:
        if self._as_json:
            put_progress(snapshot)
        else:
            stats = snapshot.stats
            say(
                f"{stats.completed:,} done, {stats.remaining:,} left, {snapshot.rate:,.1f} pages/s, "
                f"{stats.items:,} items, {stats.dead:,} dead, ETA {duration(eta(snapshot))}"
            )


def view(snapshot: Snapshot, crew: Crew) -> list[Text]:
    """Return the lines under the bar."""
    stats, tally = snapshot.stats, crew.tally
    hosts = f"{snapshot.hosts:,}" if snapshot.hosts < 1000 else "1,000+"
    lines = [
        _pairs(
            ("pages/s", f"{snapshot.rate:,.1f}"),
            ("ETA", duration(eta(snapshot))),
            ("items", f"{stats.items:,}"),
            ("rejected", f"{stats.rejected:,}"),
            ("dead", f"{stats.dead:,}"),
        ),
        _pairs(
            ("pending", f"{stats.pending:,}"),
            ("delayed", f"{stats.delayed:,}"),
            ("in hand", f"{stats.leased:,}"),
            ("hosts", hosts),
            ("workers", f"{len(crew.pids)}"),
        ),
    ]
    if tally.errors:
        lines.append(_pairs(*((name, f"{count:,}") for name, count in most_of(tally.errors)), style="yellow"))
    return lines


def eta(snapshot: Snapshot) -> float | None:
    """Return the seconds that are left."""
    return snapshot.eta.total_seconds() if snapshot.eta else None


def put_progress(snapshot: Snapshot) -> None:
    """Write the run's counts as one line of JSON to stderr: stdout is for the result alone."""
    import msgspec

    sys.stderr.write(msgspec.json.encode(snapshot.as_json()).decode() + "\n")


def _pairs(*pairs: tuple[str, str], style: str = "cyan") -> Text:
    text = Text("  ")
    for name, value in pairs:
        text.append(f"{name} ", style="dim").append(value, style=style).append("   ")
    return text
