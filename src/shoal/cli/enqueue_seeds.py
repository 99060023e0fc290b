"""Feeds the seeds of a run into the queue and reports the invalid ones."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Self

from shoal.cli.configuration import current_project
from shoal.cli.console import counted, put_message, say
from shoal.core import values
from shoal.core.model import Run
from shoal.discover.rejects import RejectFile
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Refusal
from shoal.fleet.job import Job
from shoal.fleet.run.enqueue import Refusals, RunEnqueuer, open_enqueuer, read_policy
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue

MAX_SHOWN = 10
LINE_INTERVAL_SECONDS = 10.0  # between two lines while sources are read


def read_since(text: str) -> datetime:
    """Read a date, a time, or a duration before now."""
    return values.read_since("--since", text, datetime.now(UTC))


class RefusedSeeds:
    """Prints the first few invalid seeds, counts all, and writes them to a file if one is given."""

    def __init__(self, path: str | None, invalid: str = "skip", *, as_json: bool = False) -> None:
        self._say = put_message if as_json else say
        self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS
        self._invalid = read_policy("--invalid", invalid)
        self._stack = ExitStack()
        self._noted = Refusals(file=self._stack.enter_context(RejectFile(path)) if path else None)
        self._unlisted = 0  # problems of sitemaps beyond those that their report lists

    @property
    def count(self) -> int:
        """How many seeds could not be queued, and sources could not be read."""
        return self._noted.count + self._unlisted

    @property
    def first(self) -> Sequence[Refusal]:
        """The first few of them."""
        return self._noted.first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @asynccontextmanager
    async def feed(
        self, queue: Queue, job: Job, seeds: Seeds, run: Run | None = None
    ) -> AsyncIterator[RunEnqueuer]:
        """Yield the seeds as tasks, routed by the rules of the project."""
        opened = open_enqueuer(
            queue,
            job.scraper,
            seeds,
            current_project().routes,
            on_invalid=self._invalid,
            on_refusal=self.note,
            on_report=self._report,
            on_source=self._watch,
        )
        async with opened as filling:
            yield filling.into(run) if run else filling

    def note(self, refusal: Refusal) -> None:
        """Record one invalid seed."""
        self._noted.record(refusal)
        if self.count <= MAX_SHOWN:
            text = "" if refusal.text in refusal.reason else f"{refusal.text!r}: "
            self._say(f"Skipped {refusal.where}: {text}{refusal.reason}")
        elif self.count == MAX_SHOWN + 1:
            self._say("More seeds were skipped; the summary shows how many.")

    def _watch(self, report: SitemapReport) -> None:
        report.on_file = self._show_progress

    def _show_progress(self, report: SitemapReport) -> None:
        """Print how far the walk is; a large tree takes hours, because files are fetched one by one."""
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + LINE_INTERVAL_SECONDS
            read = f"{counted(report.urls, 'URL')} in {counted(report.files, 'file')}"
            self._say(f"Reading {report.source}s: {read} so far, {report.pending + 1:,} to read.")

    def _report(self, report: SitemapReport) -> None:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.most_common())
        kind = f"{report.source.capitalize()}s"
        self._say(
            f"{kind}: {counted(report.urls, 'URL')} in {counted(report.files, 'file')}. {skipped}".strip()
        )
        # A source that cannot be read is as bad as a seed that is no URL.
        self._noted.record_problems(report)
        self._unlisted += report.unlisted
        for problem in report.problems[:MAX_SHOWN]:
            self._say(f"  {problem.url}: {problem.reason}")
