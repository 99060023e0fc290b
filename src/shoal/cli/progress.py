"""Progress output of a run: a live view in a terminal, else lines; and its first errors."""

import sys
import time
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from shoal.cli.console import console, counted, duration, escaped, put_line, put_message, say
from shoal.core.commands import shoal_command
from shoal.core.model import Counts, Run, RunState
from shoal.fleet.run.pool import RunObserver, WorkerPool
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rows.row import fields_of
from shoal.fleet.telemetry.logs import LogPlan
from shoal.fleet.telemetry.worker_log import Warned
from shoal.queue.address import shown_queue
from shoal.worker.counters import WorkerCounters, format_counts, postponed_words, top_counts

LINE_INTERVAL_SECONDS = 10.0  # without a terminal


def first_error_lines(tally: WorkerCounters) -> list[str]:
    """Return the first error of the most frequent classes, with its traceback."""
    lines = []
    for kind, count in top_counts(tally.errors):
        if kind in tally.first_errors:
            first, *traceback = tally.first_errors[kind].split("\n")
            lines.append(f"First of {count:,} {kind}: {first}" if count > 1 else f"{kind}: {first}")
            lines += [f"  {line}" for line in traceback]
    return lines


def retry_words(stats: Counts, tally: WorkerCounters, now: float) -> str | None:
    """Return which tasks a run waits for, if all that are left wait for a retry; `now` is the time of day."""
    if not stats.delayed or stats.pending or stats.leased or not tally.first_errors:
        return None
    kind = top_counts(tally.errors, 1)[0][0]
    error = tally.first_errors.get(kind, "").partition("\n")[0]
    left = tally.last_retry_at - now
    when = f", all within {left:,.0f} s" if left >= 1 else ""
    return f"a retry of {counted(stats.delayed, 'task')}{when} ({kind}{f': {error}' if error else ''})"


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


class Printer(RunObserver):
    """Prints what happens to workers and what they print: as text, or as lines of JSON."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def on_message(self, text: str) -> None:
        """Print an event of a worker."""
        put_message(text) if self.as_json else say(text)

    def on_output(self, line: str) -> None:
        """Print a line that a step has printed."""
        put_line({"output": line}) if self.as_json else say(line)

    def on_warning(self, warned: Warned) -> None:
        """Print what a worker has logged: with its fields as JSON, else like the output of a step."""
        if self.as_json:
            put_line(warned.as_json())
        else:
            super().on_warning(warned)


class ProgressView(Printer):
    """Shows the progress of a run: a live view in a terminal, else one line at intervals."""

    shows_progress = True

    def __init__(self, *, as_json: bool = False, logs: LogPlan | None = None, queue_url: str = "") -> None:
        super().__init__(as_json=as_json)
        # Log lines in the same terminal would break the live view.
        has_lines = logs is not None and logs.is_stream
        self._view = None if as_json or has_lines else open_view()
        self._last_line = time.monotonic()
        self._awaits_error, self._is_paused = True, False
        self._place = f" in {shown_queue(queue_url)}" if queue_url else ""

    def __enter__(self) -> Self:
        if self._view:
            self._view.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._view:
            self._view.stop()

    def on_start(self, run: Run, pool: WorkerPool) -> None:
        """Print the id of the run and its queue."""
        if self._view:
            self._view.name(run.scraper)
        if not self.as_json:
            say(f"Run {run.id}{self._place}")

    def on_progress(self, snapshot: Snapshot, pool: WorkerPool) -> None:
        """Show the current progress, the first error while nothing is done, and that a run is paused."""
        self._show_first_error(snapshot, pool)
        self._show_pause(snapshot.run)
        if self._view:
            self._view.show(snapshot, pool)
        elif time.monotonic() - self._last_line >= LINE_INTERVAL_SECONDS:
            self._last_line = time.monotonic()
            self._line(snapshot, pool)

    def _show_first_error(self, snapshot: Snapshot, pool: WorkerPool) -> None:
        # The retries of a page may take minutes, in which the run would seem to hang.
        if not self._awaits_error or not (pool.tally.first_errors or snapshot.stats.completed):
            return
        self._awaits_error = False
        if not snapshot.stats.completed and snapshot.stats.remaining:
            kind, error = next(iter(pool.tally.first_errors.items()))
            self.on_message(f"First error: {kind}: {error.partition(chr(10))[0]}")

    def _show_pause(self, run: Run) -> None:
        was_paused, self._is_paused = self._is_paused, run.state is RunState.PAUSED
        if self._is_paused and not was_paused:
            self.on_message(f"The run is paused. To resume it, run: {shoal_command(f'resume {run.id}')}")

    def on_message(self, text: str) -> None:
        """Print an event of a worker; in a terminal, it stands out from the output of steps."""
        if self.as_json:
            put_message(text)
        else:
            console().print(f"[yellow]{escaped(text)}")

    def _line(self, snapshot: Snapshot, pool: WorkerPool) -> None:
        waits_for = snapshot.waits_for or retry_words(snapshot.stats, pool.tally, time.time())
        if self.as_json:
            put_progress(snapshot, waits_for)
            return
        stats = snapshot.stats
        tally = pool.tally
        counted_by = (tally.errors, postponed_words(tally.postponed))
        troubles = [format_counts(counts) for counts in counted_by if counts]
        parts = [
            f"{stats.completed:,} done, {stats.remaining:,} left, {snapshot.rate:,.1f} pages/s",
            f"{counted(stats.items, 'item')}, {stats.dead:,} dead, ETA {duration(snapshot.eta_seconds)}",
        ]
        waits = [f"waiting for {waits_for}"] if waits_for else []
        say(", ".join([*parts, *troubles, *waits]))


def open_view() -> "RunView | None":
    """Return a live view of a run, None without a terminal."""
    if not sys.stderr.isatty():
        return None

    return RunView() if console().is_terminal else None


def put_progress(snapshot: Snapshot, waits_for: str | None = None) -> None:
    """Write the run's counts as one line of JSON to stderr: stdout carries only the result."""
    put_line(fields_of(snapshot.row()) | {"waits_for": waits_for or snapshot.waits_for})
