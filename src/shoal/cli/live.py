"""What a person sees while a run goes on."""

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from shoal.cli.console import console, duration, escaped, say
from shoal.core.model import Run
from shoal.fleet.crew import Crew
from shoal.fleet.logs import LogPlan
from shoal.fleet.progress import Snapshot
from shoal.worker.tally import listed

if TYPE_CHECKING:
    from shoal.cli.runview import RunView

LINE_EVERY = 10.0  # seconds, where there is no terminal


class Show(AbstractContextManager["Show"]):
    """Shows a run as it goes on: a live view in a terminal, a line now and then elsewhere."""

    def __init__(self, *, as_json: bool = False, logs: LogPlan | None = None) -> None:
        self._as_json = as_json
        # Log lines in the same terminal would run through the live view.
        has_lines = logs is not None and logs.is_stream
        self._view = None if as_json or has_lines else open_view()
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._view:
            self._view.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._view:
            self._view.stop()

    def started(self, run: Run, crew: Crew) -> None:
        """Say what begins."""
        if self._view:
            self._view.name(run.scraper)
        if not self._as_json:
            say(f"Run {run.id}")

    def saw(self, snapshot: Snapshot, crew: Crew) -> None:
        """Show how the run is now."""
        if self._view:
            self._view.show(snapshot, crew)
        elif time.monotonic() - self._last_line >= LINE_EVERY:
            self._last_line = time.monotonic()
            self._line(snapshot, crew)

    def said(self, text: str) -> None:
        """Pass on what happened to a worker."""
        if self._as_json:
            put_message(text)
        else:
            console().print(f"[yellow]{escaped(text)}")

    def printed(self, line: str) -> None:
        """Pass on what a step printed."""
        console().print(escaped(line))

    def _line(self, snapshot: Snapshot, crew: Crew) -> None:
        if self._as_json:
            put_progress(snapshot)
            return
        stats = snapshot.stats
        troubles = [listed(counts) for counts in (crew.tally.errors, crew.tally.put_off) if counts]
        parts = [
            f"{stats.completed:,} done, {stats.remaining:,} left, {snapshot.rate:,.1f} pages/s",
            f"{stats.items:,} items, {stats.dead:,} dead, ETA {duration(eta(snapshot))}",
        ]
        waits = [f"waiting for {snapshot.waits_for}"] if snapshot.waits_for else []
        say(", ".join([*parts, *troubles, *waits]))


def open_view() -> "RunView | None":
    """Return a live view of a run, None where there is no terminal for it."""
    if not sys.stderr.isatty():
        return None
    from shoal.cli.runview import RunView

    return RunView() if console().is_terminal else None


def eta(snapshot: Snapshot) -> float | None:
    """Return the seconds that are left."""
    return snapshot.eta.total_seconds() if snapshot.eta else None


def put_message(text: str) -> None:
    """Write what a person would be told as one line of JSON to stderr."""
    import msgspec

    sys.stderr.write(msgspec.json.encode({"message": text}).decode() + "\n")


def put_progress(snapshot: Snapshot) -> None:
    """Write the run's counts as one line of JSON to stderr: stdout is for the result alone."""
    import msgspec

    sys.stderr.write(msgspec.json.encode(snapshot.as_json()).decode() + "\n")
