"""A run in a terminal, drawn anew as it goes on."""

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from shoal.cli.console import console, duration, escaped
from shoal.cli.live import eta
from shoal.fleet.crew import Crew
from shoal.fleet.progress import Snapshot
from shoal.worker.tally import most_of


class RunView:
    """A bar, and what there is to say under it."""

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
        """Begin to draw."""
        self._live.start()

    def stop(self) -> None:
        """Take the view away."""
        self._live.stop()

    def name(self, scraper: str) -> None:
        """Say whose run it is."""
        self._bar.update(self._task, description=escaped(scraper))

    def show(self, snapshot: Snapshot, crew: Crew) -> None:
        """Draw how the run is now."""
        stats = snapshot.stats
        self._bar.update(self._task, completed=stats.tasks - stats.remaining, total=stats.tasks or None)
        self._live.update(Group(self._bar, *view(snapshot, crew)))


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
    for counts in (tally.errors, tally.put_off):
        if counts:
            lines.append(_pairs(*((name, f"{count:,}") for name, count in most_of(counts)), style="yellow"))
    if snapshot.waits_for:
        lines.append(_pairs(("waiting for", snapshot.waits_for), style="yellow"))
    return lines


def _pairs(*pairs: tuple[str, str], style: str = "cyan") -> Text:
    text = Text("  ")
    for name, value in pairs:
        text.append(f"{name} ", style="dim").append(value, style=style).append("   ")
    return text
