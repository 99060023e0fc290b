"""Links that were not followed, counted per run in the queue, so that every report has them."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import SECOND
from shoal.core.tasks import repeat
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.links.filter import LinkFilter
from shoal.worker.counters import WorkerCounters
from shoal.worker.files.counts import write_file_counts
from shoal.worker.left_out.last_counts import mark_counted, mark_counting
from shoal.worker.left_out.missing import write_missing
from shoal.worker.left_out.notes import CountNotes
from shoal.worker.left_out.reasons import ROBOTS, SKIPPED, cut_of, note_cuts, option_for

WRITE_INTERVAL = 5 * SECOND
PAGES_INTERVAL = SECOND  # of the counts of pages and files, which change seldom
LINK_NOTES = CountNotes("links not followed")


@dataclass(frozen=True, slots=True)
class SkippedLinks:
    """Links that were not followed for one reason."""

    count: int
    example: str | None = None  # the URL of one of them
    option: str | None = None  # that follows them
    is_cut: bool = False  # whether they make the run partial

    def as_json(self) -> dict[str, int | str | None]:
        """Return the links with the field names of every report."""
        return {"count": self.count, "example": self.example, "option": self.option}


async def links_not_followed(queue: SharedNotes, run_id: str) -> dict[str, SkippedLinks]:
    """Return the skipped links of a run by reason, the most frequent reason first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str | None] = {}
    for note in (await LINK_NOTES.read(queue, run_id)).values():
        for reason, (count, example) in _decode(note.value).items():
            counts[reason] += count
            examples.setdefault(reason, example)
    return {
        reason: SkippedLinks(count, examples[reason], option_for(reason), cut_of(reason) is not None)
        for reason, count in counts.most_common()
    }


class SkippedLinkCounts:
    """Writes the skipped links, missing pages and files of one worker into the queue."""

    def __init__(
        self, queue: Queue, link_filter: "LinkFilter", run_id: str, worker_id: str, tally: WorkerCounters
    ) -> None:
        self._queue, self._link_filter, self._tally = queue, link_filter, tally
        self._run_id, self._worker_id = run_id, worker_id
        self._written: dict[str, int] = {}
        self._missing_written = self._files_written = 0
        self._cuts_noted: set[str] = set()
        self._is_marked = self.is_complete = False

    async def run(self) -> None:
        """Write the counts periodically if they have changed, until cancelled."""
        pages = repeat(self._write_pages, PAGES_INTERVAL, at_once=True)
        await asyncio.gather(pages, repeat(self._write_links, WRITE_INTERVAL))

    async def write_last(self) -> None:
        """Write the counts if they have changed, and that they are the last ones."""
        await self._write_pages()
        await self._write_links()
        await mark_counted(self._queue, self._run_id, self._worker_id)
        self.is_complete = True

    async def _write_pages(self) -> None:
        if not self._is_marked:
            await mark_counting(self._queue, self._run_id, self._worker_id)
            self._is_marked = True
        missing = self._tally.missing
        if missing.count != self._missing_written:
            await write_missing(self._queue, self._run_id, self._worker_id, missing)
            self._missing_written = missing.count
        if self._tally.files.total != self._files_written:
            await write_file_counts(self._queue, self._run_id, self._worker_id, self._tally.files)
            self._files_written = self._tally.files.total
        if any(self._written.get(reason) != self._tally.dropped[reason] for reason in self._left_out_pages()):
            await self._write_links()

    def _left_out_pages(self) -> list[str]:
        """Return the reasons that concern pages: unlike links, they are part of the number of pages."""
        return [reason for reason in self._tally.dropped if reason == ROBOTS or reason.startswith(SKIPPED)]

    async def _write_links(self) -> None:
        counts = dict(self._tally.dropped)
        if counts == self._written:
            return
        value = {reason: (count, self._link_filter.examples.get(reason)) for reason, count in counts.items()}
        await LINK_NOTES.write(self._queue, self._run_id, self._worker_id, msgspec.json.encode(value))
        self._written = counts
        await self._note_cuts(counts)

    async def note_cuts_early(self, reasons: Iterable[str]) -> None:
        """Record that links were cut for these reasons, before the last task of the run may be settled."""
        with suppress(QueueError):  # they are written with the counts too
            await self._note_cuts(reasons)

    async def _note_cuts(self, reasons: Iterable[str]) -> None:
        cuts = {cut for reason in reasons if (cut := cut_of(reason))} - self._cuts_noted
        if cuts:
            await note_cuts(self._queue, self._run_id, cuts)
            self._cuts_noted |= cuts


_decode = msgspec.json.Decoder(dict[str, tuple[int, str | None]]).decode
