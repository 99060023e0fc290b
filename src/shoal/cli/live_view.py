"""The live view of a run in a terminal. Uses rich."""

import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from shoal.cli.console import duration
from shoal.cli.left_out import retry_words
from shoal.cli.terminal import console, escaped
from shoal.fleet.run.pool import WorkerPool
from shoal.fleet.status.progress import Snapshot
from shoal.worker.counters import postponed_words, top_counts


class RunView:
    """A progress bar with lines of counts under it."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=36),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            console=console(),
        )
        self._task = self._bar.add_task("", total=None)
        self._live = Live(self._bar, console=console(), refresh_per_second=8, transient=True)

    def start(self) -> None:
        """Start drawing."""
        self._live.start()

    def stop(self) -> None:
        """Remove the view."""
        self._live.stop()

    def name(self, scraper: str) -> None:
        """Set the scraper's name."""
        self._bar.update(self._task, description=escaped(scraper))

    def show(self, snapshot: Snapshot, pool: WorkerPool) -> None:
        """Draw the current progress."""
        stats = snapshot.stats
        self._bar.update(self._task, completed=stats.tasks - stats.remaining, total=stats.tasks or None)
        self._live.update(Group(self._bar, *view(snapshot, pool)))


def view(snapshot: Snapshot, pool: WorkerPool) -> list[Text]:
    """Return the lines below the bar."""
    stats, tally = snapshot.stats, pool.tally
    hosts = f"{snapshot.hosts:,}" if snapshot.hosts < 1000 else "1,000+"
    lines = [
        _pairs(
            ("pages/s", f"{snapshot.rate:,.1f}"),
            ("ETA", duration(snapshot.eta_seconds)),
            ("items", f"{stats.items:,}"),
            ("rejected", f"{stats.rejected:,}"),
            ("dead", f"{stats.dead:,}"),
        ),
        _pairs(
            ("pending", f"{stats.pending:,}"),
            ("delayed", f"{stats.delayed:,}"),
            ("in progress", f"{stats.leased:,}"),
            ("hosts", hosts),
            ("workers", f"{len(pool.pids)}"),
        ),
    ]
    for counts in (tally.errors, postponed_words(tally.postponed)):
        if counts:
            lines.append(
                _pairs(*((name, f"{count:,}") for name, count in top_counts(counts)), style="yellow")
            )
    if waits_for := snapshot.waits_for or retry_words(stats, tally, time.time()):
        lines.append(_pairs(("waiting for", waits_for), style="yellow"))
    return lines


def _pairs(*pairs: tuple[str, str], style: str = "cyan") -> Text:
    text = Text("  ")
    for name, value in pairs:
        text.append(f"{name} ", style="dim").append(value, style=style).append("   ")
    return text
