"""Progress output of a run: a live view in a terminal, else lines; and its first errors."""

import sys
import time
from typing import TYPE_CHECKING, Self

from shoal.cli.console import counted, duration, put_line, put_message, say
from shoal.cli.left_out import retry_words
from shoal.core.commands import shoal_command
from shoal.core.model import Run, RunState
from shoal.fleet.run.pool import RunObserver, WorkerPool
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rows.row import fields_of
from shoal.fleet.telemetry.logs import LogPlan
from shoal.fleet.telemetry.worker_log import Warned
from shoal.queue.address import shown_queue
from shoal.worker.counters import format_counts, postponed_words

if TYPE_CHECKING:
    from shoal.cli.live_view import RunView

LINE_INTERVAL_SECONDS = 10.0  # without a terminal


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
            put_line(warned._asdict())
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
        put_message(text) if self.as_json else say(text, style="yellow")

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
    from shoal.cli.live_view import RunView
    from shoal.cli.terminal import console

    return RunView() if console().is_terminal else None


def put_progress(snapshot: Snapshot, waits_for: str | None = None) -> None:
    """Write the run's counts as one line of JSON to stderr: stdout carries only the result."""
    put_line(fields_of(snapshot.row()) | {"waits_for": waits_for or snapshot.waits_for})
