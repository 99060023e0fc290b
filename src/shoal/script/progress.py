"""Progress of a run in a script or a notebook: one line that is rewritten; nothing without a terminal."""

import logging
import sys
from importlib import import_module
from typing import Any

from shoal.core.text import printable
from shoal.core.values import counted
from shoal.discover.sitemaps.report import SitemapReport
from shoal.fleet.run.pool import RunObserver, WorkerPool
from shoal.fleet.status.progress import Snapshot
from shoal.script.options import in_python

log = logging.getLogger("shoal.script")
ERASE = "\r\x1b[2K"
MAX_WIDTH = 78  # of the line: one that wraps cannot be rewritten


class ScriptProgress(RunObserver):
    """Shows the progress of a run where the program's user can see it.

    With `shown` None that is in a terminal and in a notebook. Messages are shown there too; elsewhere they
    are warnings of the logger `shoal.script`.
    """

    shows_progress = True

    def __init__(self, scraper: str, shown: bool | None) -> None:
        self._scraper = printable(scraper)
        self._cell = open_cell() if shown is not False and is_notebook() else None
        has_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_line = self._cell is None and shown is not False and has_terminal
        self._is_lines = bool(shown) and self._cell is None and not has_terminal
        self.last = ""

    def on_progress(self, snapshot: Snapshot, pool: WorkerPool) -> None:
        """Show the counts."""
        self._show(f"{self._scraper}: {progress_line(snapshot)}")

    def watch(self, report: SitemapReport) -> None:
        """Show how far a source is while it is read."""
        report.on_file = self._show_source

    def _show_source(self, report: SitemapReport) -> None:
        read = f"{counted(report.urls, 'URL')} in {counted(report.files, 'file')}"
        self._show(f"{self._scraper}: reading {report.source}s, {read}, {report.pending + 1:,} to read")

    def on_message(self, text: str) -> None:
        """Show an event of the run."""
        shown = "\n".join(map(printable, in_python(text).split("\n")))
        if self._is_line:
            sys.stderr.write(f"{ERASE}{shown}\n{self.last}")
            sys.stderr.flush()
        elif self._cell or self._is_lines:
            sys.stderr.write(f"{shown}\n")
        else:
            log.warning("%s", shown)

    def on_output(self, line: str) -> None:
        """Show a line that a step printed in a worker process."""
        erase = ERASE if self._is_line else ""
        sys.stderr.write(f"{erase}{printable(line)}\n")

    def close(self, text: str = "") -> None:
        """Replace the line by a closing one."""
        if self._is_line:
            sys.stderr.write(f"{ERASE}{text}\n" if text else ERASE)
            sys.stderr.flush()
        elif text:
            self._show(text)
        self.last = ""

    def _show(self, text: str) -> None:
        if self._is_line:
            self.last = text[:MAX_WIDTH]
            sys.stderr.write(f"{ERASE}{self.last}")
            sys.stderr.flush()
        elif self._cell:
            self._cell.update({"text/plain": text}, raw=True)
        elif self._is_lines and text != self.last:
            self.last = text
            sys.stderr.write(f"{text}\n")


def progress_line(snapshot: Snapshot) -> str:
    """Return the counts of a run in one line."""
    stats = snapshot.stats
    parts = [counted(stats.completed, "page"), f"{stats.remaining:,} left", counted(stats.items, "item")]
    parts += [counted(stats.dead, "dead letter")] if stats.dead else []
    return ", ".join([*parts, f"{snapshot.rate:,.1f} pages/s"])


def is_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def open_cell() -> Any:
    """Return an output of the running cell that can be rewritten."""
    display = import_module("IPython.display").display
    return display({"text/plain": ""}, raw=True, display_id=True)
