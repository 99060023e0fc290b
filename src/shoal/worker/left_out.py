"""What a run leaves out: links that were not followed, and missing, forbidden or skipped pages, by reason.

Each worker counts them, its files too, and writes the counts into a note of its own, so that every report has
them. A worker that is killed loses those of its last seconds: then the counts of its run are lower bounds.
"""

from collections import Counter
from collections.abc import Collection, Iterable, MutableMapping
from contextlib import suppress
from datetime import timedelta

import msgspec

from shoal.core.errors import HttpStatus, NotAPage, QueueError, RobotsDenied, SkipTask
from shoal.core.model import SECOND, Task
from shoal.core.redact import Redact, shown_url
from shoal.core.revisits import RevisitReason
from shoal.core.secrets import hidden
from shoal.core.tasks import repeat
from shoal.core.text import printable, shorten
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.links.filter import OUT_OF_SCOPE, TOO_DEEP, TRAP, LinkFilter
from shoal.worker.counters import FileCounts, MissingPages, TaskCounts, WorkerCounters

ROBOTS = "forbidden by robots.txt"
OTHER_TYPE = "not HTML, XML, JSON or text"
SKIPPED = "skipped: "  # by a step; the reason follows
# Pages that are not fetched because of the setting `revisit`; what they yielded before is used again
REUSED = {
    RevisitReason.NOT_DUE: "pages not due (revisit)",
    RevisitReason.OVER_BUDGET: "due pages left for the next run (revisit_pages)",
}
NOT_PAGES = (ROBOTS, OTHER_TYPE, *REUSED.values())  # tasks that are completed without a page
TRAPS, DEPTH, TEST = "traps", "depth", "test"  # what makes a run partial

MISSING = frozenset({404, 410})
MAX_LENGTH = 100  # characters of a reason of SkipTask
MAX_REASONS = 50  # of one worker: a reason that holds a price or an id would fill the record
COUNTS_INTERVAL = 2 * SECOND
COUNTS_TTL = timedelta(days=365)
LOST = (
    "A worker was killed before it wrote its last counts. Items and tasks are exact. Missing pages, links "
    "not followed and files may be more than shown, and so pages fewer."
)

_CUT_TOPIC = "runs with links cut"
_CUTS = {TRAP: TRAPS, TOO_DEEP: DEPTH}
_OPTIONS = {
    TRAP: "--set max_per_pattern=1000000",
    TOO_DEEP: "--set max_depth=100",
    OUT_OF_SCOPE: "--set scope=site or --set scope=any",
    ROBOTS: "--set robots=false",
    OTHER_TYPE: "--set content=any",
}
_DESCRIPTIONS = {
    TRAPS: "links that look endless were not followed (max_per_pattern)",
    DEPTH: "links deeper than max_depth were not followed",
    TEST: "it was a test, with a few pages only",
}


class SkippedLinks(msgspec.Struct, frozen=True):
    """Links that were not followed for one reason."""

    count: int
    example: str | None = None  # the URL of one of them
    option: str | None = None  # that follows them
    is_cut: bool = False  # whether they make the run partial


class WorkerLeftOut(msgspec.Struct, kw_only=True, frozen=True):
    """What one worker has left out, as it is noted in the queue."""

    links: dict[str, tuple[int, str | None]]  # by reason: how many, and the URL of one of them
    missing: MissingPages
    files: FileCounts
    is_final: bool  # else it still counts, or was killed before it wrote its last counts


class LeftOut(msgspec.Struct, frozen=True):
    """What a run has left out so far, and its files."""

    links: dict[str, SkippedLinks] = msgspec.field(default_factory=dict)  # by reason, the most frequent first
    missing: MissingPages = msgspec.field(default_factory=MissingPages)
    files: FileCounts = msgspec.field(default_factory=FileCounts)
    counting: frozenset[str] = frozenset()  # workers that have not written their last counts


def left_out_topic(run_id: str) -> str:
    """Return the note topic of what the workers of a run have left out."""
    return f"left out {run_id}"


async def read_left_out(queue: SharedNotes, run_id: str) -> LeftOut:
    """Return what a run has left out so far."""
    notes = await queue.notes(left_out_topic(run_id))
    by_worker = {worker: _decode(notes[worker].value) for worker in sorted(notes)}
    counts: Counter[str] = Counter()
    examples: dict[str, str | None] = {}
    for one in by_worker.values():
        for reason, (count, example) in one.links.items():
            counts[reason] += count
            examples.setdefault(reason, example)
    links = {
        reason: SkippedLinks(count, examples[reason], option_for(reason), cut_of(reason) is not None)
        for reason, count in counts.most_common()
    }
    missing = sum((one.missing for one in by_worker.values()), MissingPages())
    files = sum((one.files for one in by_worker.values()), FileCounts())
    counting = frozenset(worker for worker, one in by_worker.items() if not one.is_final)
    return LeftOut(links, missing, files, counting)


def option_for(reason: str) -> str | None:
    """Return the option that follows links which were left out for a reason, if there is one."""
    return _OPTIONS.get(_kind(reason))


def cut_of(reason: str) -> str | None:
    """Return whether a reason makes its run partial, and by what: traps or depth. Other reasons are rules."""
    return _CUTS.get(_kind(reason))


def title_of(reason: str) -> str:
    """Return the title of what is left out for a reason."""
    if reason.startswith(SKIPPED):
        return "Skipped by a step"
    return "Not fetched" if reason in REUSED.values() else "Links not followed"


def describe_cuts(cuts: Iterable[str]) -> str:
    """Return why a run that has no tasks left is partial."""
    return "; ".join(_DESCRIPTIONS.get(cut, cut) for cut in cuts)


async def note_cuts(queue: SharedNotes, run_id: str, cuts: Iterable[str]) -> None:
    """Record that links or seeds of a run were cut."""
    await queue.write_notes(_CUT_TOPIC, {f"{run_id} {cut}": b"" for cut in cuts})


async def cuts_of(queue: SharedNotes, run_id: str) -> tuple[str, ...]:
    """Return by what links or seeds of a run were cut."""
    keys = {f"{run_id} {cut}": cut for cut in _DESCRIPTIONS}
    found = await queue.notes(_CUT_TOPIC, list(keys))
    return tuple(cut for key, cut in keys.items() if key in found)


async def forget_cuts(queue: SharedNotes, run_id: str) -> None:
    """Remove what was recorded of the cut links of a run."""
    await queue.write_notes(_CUT_TOPIC, {f"{run_id} {cut}": None for cut in _DESCRIPTIONS})


class LeftOutCounts:
    """Writes what one worker has left out, and its files, into the queue."""

    def __init__(
        self, queue: Queue, link_filter: LinkFilter, run_id: str, worker_id: str, tally: WorkerCounters
    ) -> None:
        self._queue, self._link_filter, self._tally = queue, link_filter, tally
        self._run_id, self._worker_id = run_id, worker_id
        self._written: WorkerLeftOut | None = None
        self._cuts_noted: set[str] = set()
        self.is_complete = False

    async def run(self) -> None:
        """Write the counts periodically if they have changed, until cancelled."""
        await repeat(self._write_changes, COUNTS_INTERVAL, at_once=True)

    async def write_last(self) -> None:
        """Write the counts, and that they are the last ones."""
        await self._write(self._count(is_final=True))
        self.is_complete = True

    async def _write_changes(self) -> None:
        if (counts := self._count()) != self._written:
            await self._write(counts)

    async def _write(self, counts: WorkerLeftOut) -> None:
        is_empty = not (counts.links or counts.missing.count or counts.files.total)
        # Of the many workers that leave nothing out no note is kept.
        note = None if is_empty and counts.is_final else msgspec.json.encode(counts)
        topic = left_out_topic(self._run_id)
        await self._queue.write_notes(topic, {self._worker_id: note}, ttl=COUNTS_TTL)
        self._written = counts
        await self._note_cuts(counts.links)

    def _count(self, *, is_final: bool = False) -> WorkerLeftOut:
        tally, examples = self._tally, self._link_filter.examples
        links = {reason: (count, examples.get(reason)) for reason, count in tally.dropped.items()}
        return WorkerLeftOut(
            links=links, missing=tally.missing, files=tally.files + FileCounts(), is_final=is_final
        )

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
            case NotAPage():
                self._count(OTHER_TYPE, task.url, counts)
            case _:
                return False
        return True

    def _count(self, reason: str, url: str | None, counts: TaskCounts) -> None:
        counts.drop({reason: 1})
        if url is not None:
            self._examples.setdefault(reason, shown_url(url))


def skip_reason(reason: str, counted: Collection[str]) -> str:
    """Return the name under which a task that a step skips is counted; after many names, a common one."""
    name = SKIPPED + shorten(printable(" ".join(reason.split())), MAX_LENGTH)
    if name in counted or sum(one.startswith(SKIPPED) for one in counted) < MAX_REASONS:
        return name
    return f"{SKIPPED}other reasons"


def _kind(reason: str) -> str:
    return TRAP if reason.startswith(TRAP) else reason


_decode = msgspec.json.Decoder(WorkerLeftOut).decode

TRAPS_INTERVAL = SECOND / 2  # a fast fleet fetches hundreds of pages meanwhile
MAX_TRIES = 5
TRAPS_TTL = timedelta(days=1)


def trap_topic(run_id: str) -> str:
    """Return the note topic of the pages of each trap that a run has fetched."""
    return f"trap pages {run_id}"


class TrapCountSync:
    """Adds the counts of one worker to those of the run: one note for each trap, with the total."""

    def __init__(self, queue: SharedNotes, link_filter: LinkFilter, run_id: str) -> None:
        self._queue, self._link_filter, self._topic = queue, link_filter, trap_topic(run_id)

    async def run(self) -> None:
        """Share the counts periodically until cancelled."""
        await repeat(self.share, TRAPS_INTERVAL)

    async def share(self) -> None:
        """Share the counts once; those that other workers keep writing first wait for the next time."""
        for trap, pages in self._link_filter.unshared().items():
            for _ in range(MAX_TRIES):
                if await self._add(trap, pages):
                    break

    async def _add(self, trap: str, pages: int) -> bool:
        """Add pages to the total of a trap; return False if another worker wrote it at the same time."""
        note = (await self._queue.notes(self._topic, [trap])).get(trap)
        total = (int(note.value) if note else 0) + pages
        stamp = note.stamp if note else None
        if not await self._queue.swap_note(
            self._topic, trap, str(total).encode(), stamp=stamp, ttl=TRAPS_TTL
        ):
            return False
        self._link_filter.set_shared(trap, pages, total)
        return True
