"""What the sources of a run find on its way to the queue, and what they refuse before people's eyes."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal.cli.console import counted, say
from shoal.core import values
from shoal.core.model import Run
from shoal.discover.rejects import RejectFile
from shoal.discover.sitemap_report import SitemapReport
from shoal.discover.source import Refusal
from shoal.fleet.filling import Filling, open_filling, read_policy
from shoal.fleet.launch import Job
from shoal.fleet.project import Project
from shoal.fleet.seeds import Seeds
from shoal.queue.contract import Queue

MOST_SHOWN = 10


def read_since(text: str) -> datetime:
    """Read a date, a moment, or a length of time before now."""
    return values.read_since("--since", text, datetime.now(UTC))


class Refused:
    """Shows the first few that could not be queued, counts all, and writes them to a file if one is named."""

    def __init__(self, path: str | None, invalid: str = "skip") -> None:
        self.count = 0
        self._invalid = read_policy("--invalid", invalid)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(RejectFile(path)) if path else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @asynccontextmanager
    async def feed(
        self, queue: Queue, job: Job, seeds: Seeds, run: Run | None = None
    ) -> AsyncIterator[Filling]:
        """Yield the tasks of the sources on their way into a run, routed as the project wants it."""
        opened = open_filling(
            queue,
            job.scraper,
            seeds,
            Project.find(Path.cwd()).routes,
            on_invalid=self._invalid,
            on_refusal=self.note,
            on_report=self._report,
        )
        async with opened as filling:
            yield filling.into(run) if run else filling

    def note(self, refusal: Refusal) -> None:
        """Take note of one."""
        self.count += 1
        if self._file:
            self._file.write(refusal)
        if self.count <= MOST_SHOWN:
            text = "" if refusal.text in refusal.reason else f"{refusal.text!r}: "
            say(f"Passed over {refusal.where}: {text}{refusal.reason}")
        elif self.count == MOST_SHOWN + 1:
            say("Passed over more of them; the summary has their number.")

    def _report(self, report: SitemapReport) -> None:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.most_common())
        say(f"Sitemaps: {counted(report.urls, 'URL')} in {counted(report.files, 'file')}. {skipped}".strip())
        for problem in report.problems[:MOST_SHOWN]:
            say(f"  {problem.url}: {problem.reason}")
