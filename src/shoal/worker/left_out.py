"""What a run leaves out: links that were not followed, and missing, forbidden or skipped pages, by reason.

Each worker counts them, and writes the counts into the queue, so that every report has them.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from shoal.core.errors import HttpStatus, QueueError, RobotsDenied, SkipTask
from shoal.core.model import SECOND, Task
from shoal.core.redact import Redact, bare_url
from shoal.core.secrets import hidden
from shoal.core.tasks import repeat
from shoal.core.text import printable, shorten
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.links.filter import OUT_OF_SCOPE, TOO_DEEP, TRAP, LinkFilter
from shoal.worker.count_notes import COUNTING, CountNotes
from shoal.worker.counters import MissingPages, TaskCounts, WorkerCounters
from shoal.worker.files.counts import write_file_counts

ROBOTS = "forbidden by robots.txt"
SKIPPED = "skipped: "  # by a step; the reason follows
TRAPS, DEPTH = "traps", "depth"  # what makes a run partial

MISSING = frozenset({404, 410})
MAX_LENGTH = 100  # characters of a reason of SkipTask
MAX_REASONS = 50  # of one worker: a reason that holds a price or an id would fill the record
WRITE_INTERVAL = 5 * SECOND
PAGES_INTERVAL = SECOND  # of the counts of pages and files, which change seldom

LINK_NOTES, MISSING_NOTES = CountNotes("links not followed"), CountNotes("missing pages")
_CUT_TOPIC = "runs with links cut"
_CUTS = {TRAP: TRAPS, TOO_DEEP: DEPTH}
_OPTIONS = {
    TRAP: "--set max_per_pattern=1000000",
    TOO_DEEP: "--set max_depth=100",
    OUT_OF_SCOPE: "--set scope=site or --set scope=any",
    ROBOTS: "--set robots=false",
}
_DESCRIPTIONS = {
    TRAPS: "links that look endless were not followed (max_per_pattern)",
    DEPTH: "links deeper than max_depth were not followed",
}


@dataclass(frozen=True, slots=True)
class SkippedLinks:
    """Links that were not followed for one reason."""

    count: int
    example: str | None = None  # the URL of one of them
    option: str | None = None  # that follows them
    is_cut: bool = False  # whether they make the run partial


async def links_not_followed(queue: SharedNotes, run_id: str) -> dict[str, SkippedLinks]:
    """Return the skipped links of a run by reason, the most frequent reason first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str | None] = {}
    for note in (await LINK_NOTES.read(queue, run_id)).values():
        for reason, (count, example) in _decode_links(note.value).items():
            counts[reason] += count
            examples.setdefault(reason, example)
    return {
        reason: SkippedLinks(count, examples[reason], option_for(reason), cut_of(reason) is not None)
        for reason, count in counts.most_common()
    }


async def missing_pages(queue: SharedNotes, run_id: str) -> MissingPages:
    """Return the missing pages of a run so far."""
    notes = await MISSING_NOTES.read(queue, run_id)
    return sum((_decode_missing(note.value) for note in notes.values()), MissingPages())


def option_for(reason: str) -> str | None:
    """Return the option that follows links which were left out for a reason, if there is one."""
    return _OPTIONS.get(_kind(reason))


def cut_of(reason: str) -> str | None:
    """Return whether a reason makes its run partial, and by what: traps or depth. Other reasons are rules."""
    return _CUTS.get(_kind(reason))


def describe_cuts(cuts: Iterable[str]) -> str:
    """Return why a run that has no tasks left is partial."""
    return "; ".join(_DESCRIPTIONS.get(cut, cut) for cut in cuts)


async def note_cuts(queue: SharedNotes, run_id: str, cuts: Iterable[str]) -> None:
    """Record that links of a run were cut."""
    await queue.write_notes(_CUT_TOPIC, {f"{run_id} {cut}": b"" for cut in cuts})


async def cuts_of(queue: SharedNotes, run_id: str) -> tuple[str, ...]:
    """Return by what links of a run were cut."""
    keys = {f"{run_id} {cut}": cut for cut in (TRAPS, DEPTH)}
    found = await queue.notes(_CUT_TOPIC, list(keys))
    return tuple(cut for key, cut in keys.items() if key in found)


async def forget_left_out(queue: SharedNotes, run_id: str) -> None:
    """Remove what was recorded of a run."""
    await queue.write_notes(_CUT_TOPIC, {f"{run_id} {cut}": None for cut in (TRAPS, DEPTH)})
    for counts in (LINK_NOTES, MISSING_NOTES, COUNTING):
        await counts.forget(queue, run_id)


class LeftOutCounts:
    """Writes the skipped links, missing pages and files of one worker into the queue."""

    def __init__(
        self, queue: Queue, link_filter: LinkFilter, run_id: str, worker_id: str, tally: WorkerCounters
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
        await COUNTING.write(self._queue, self._run_id, self._worker_id, None)
        self.is_complete = True

    async def _write_pages(self) -> None:
        if not self._is_marked:
            await COUNTING.write(self._queue, self._run_id, self._worker_id, b"")
            self._is_marked = True
        missing = self._tally.missing
        if missing.count != self._missing_written:
            await MISSING_NOTES.write(
                self._queue, self._run_id, self._worker_id, msgspec.json.encode(missing)
            )
            self._missing_written = missing.count
        if self._tally.files.total != self._files_written:
            await write_file_counts(self._queue, self._run_id, self._worker_id, self._tally.files)
            self._files_written = self._tally.files.total
        if any(self._written.get(reason) != self._tally.dropped[reason] for reason in self._page_reasons()):
            await self._write_links()

    def _page_reasons(self) -> list[str]:
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


class LeftOutPages:
    """Counts pages that one worker leaves out without a failure; `examples` holds a URL for each reason."""

    def __init__(self, examples: MutableMapping[str, str], redact: Redact) -> None:
        self._examples, self._redact = examples, redact
        self._skipped: set[str] = set()  # the reasons so far

    def leave_out(self, task: Task, error: Exception, counts: TaskCounts, *, count_missing: bool) -> bool:
        """Count a page that a step skips, or a link to a missing or forbidden one; return whether it is."""
        if isinstance(error, SkipTask):
            reason = skip_reason(self._redact(hidden(error.reason)), self._skipped)
            self._skipped.add(reason)
            self._count(reason, task.url, counts)
            return True
        if task.depth == 0 or task.url is None:
            return False
        match error:
            case HttpStatus(status=status) if status in MISSING and count_missing:
                counts.missing = counts.missing.with_one(task.url)
            case RobotsDenied():
                self._count(ROBOTS, task.url, counts)
            case _:
                return False
        return True

    def _count(self, reason: str, url: str | None, counts: TaskCounts) -> None:
        counts.drop({reason: 1})
        if url is not None:
            self._examples.setdefault(reason, bare_url(url))


def skip_reason(reason: str, counted: Collection[str]) -> str:
    """Return the name under which a task that a step skips is counted; after many names, a common one."""
    name = SKIPPED + shorten(printable(" ".join(reason.split())), MAX_LENGTH)
    if name in counted or sum(one.startswith(SKIPPED) for one in counted) < MAX_REASONS:
        return name
    return f"{SKIPPED}other reasons"


def _kind(reason: str) -> str:
    return TRAP if reason.startswith(TRAP) else reason


_decode_links = msgspec.json.Decoder(dict[str, tuple[int, str | None]]).decode
_decode_missing = msgspec.json.Decoder(MissingPages).decode
