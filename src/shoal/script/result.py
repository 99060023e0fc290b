"""The result of a run, as a program gets it: items, rejects, dead letters and counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeVar

from shoal.core.model import DeadLetter, ReportedState, StoredItem, StoredReject
from shoal.core.run_outcome import Finding, RunOutcome
from shoal.core.tasks import first
from shoal.core.text import printable, shorten
from shoal.core.values import counted
from shoal.discover.source import Refusal
from shoal.fleet.run.launch import Summary
from shoal.fleet.status.hook_records import HookRecord
from shoal.queue.contract import Queue
from shoal.scrape.items import plain
from shoal.scrape.scraper import Scraper
from shoal.worker.counters import FileCounts
from shoal.worker.left_out import LOST, SKIPPED, SkippedLinks, title_of

MAX_LISTED = 10_000  # rejects and dead letters in a result; `counts` has the numbers of all
MAX_ROWS, MAX_COLUMNS, MAX_CELL = 10, 8, 80  # of the table in a notebook
MAX_ERRORS = 3  # first errors in the text of a result

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What became of a run. Falsy values mean that there was nothing of the kind."""

    scraper: str
    run_id: str
    state: str  # finished, partial, stopped …, as in `shoal status`
    reason: str = ""  # why it is partial
    outcome: str | None = None  # complete, partial, suspicious …; None while it may go on
    outcome_reason: str = ""  # why it is not complete
    findings: Sequence[Finding] = ()  # what is not as expected in its items
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    rejects: list[StoredReject] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    left_out: Mapping[str, SkippedLinks] = field(default_factory=dict)  # links not followed, by reason
    missing: Sequence[str] = ()  # examples of pages that links led to and that do not exist
    files: FileCounts = field(default_factory=FileCounts)  # downloads
    refused: Sequence[Refusal] = ()  # the first seeds that could not be queued
    hooks: Mapping[str, HookRecord] = field(default_factory=dict)  # of the run, by kind: how they ended
    notes: Sequence[str] = ()  # what the reader of the result should know

    @property
    def is_complete(self) -> bool:
        """Whether everything was done, no page is a dead letter, and no hook of the run has failed."""
        has_failed = any(record.has_failed for record in self.hooks.values())
        return self.state == ReportedState.FINISHED and not self.counts.get("dead") and not has_failed

    def __repr__(self) -> str:
        return f"<RunResult {self.headline}>"

    def __str__(self) -> str:
        return "\n".join(map(printable, [self.headline, *self.lines]))

    @property
    def headline(self) -> str:
        """The scraper, the state and the counts in one line."""
        counts = self.counts
        parts = [counted(counts["pages"], "page"), counted(counts["items"], "item")]
        words = {name: name for name in ("files", "rejected", "missing", "expired", "lost", "invalid")}
        parts += [f"{counts[name]:,} {word}" for name, word in words.items() if counts.get(name)]
        parts += [counted(counts["dead"], "dead letter")] if counts["dead"] else []
        parts += [f"{counts['remaining']:,} left"] if counts["remaining"] else []
        return f"{printable(self.scraper)} {self.state}: {', '.join(parts)} in {self.seconds:.1f} s"

    @property
    def lines(self) -> list[str]:
        """What else there is to say, a line each."""
        lines = [f"Not complete: {self.reason}."] if self.reason else []
        lines += [f"{'Wrong' if one.strict else 'Warning'}: {one.text}." for one in self.findings]
        failed = [record for record in self.hooks.values() if record.has_failed]
        lines += [f"Hook failed: {record.hook}: {record.error}" for record in failed]
        errors: dict[str, str] = {}
        for letter in self.dead:
            errors.setdefault(letter.error.partition(":")[0], f"{letter.task.url or ''} {letter.error}")
        lines += [f"Dead letter: {shorten(error, 200)}" for error in list(errors.values())[:MAX_ERRORS]]
        if self.rejects:
            lines.append(f"Rejected: {shorten(self.rejects[0].reason, 200)}")
        for why, links in self.left_out.items():
            example = f", for example {links.example}" if links.example else ""
            lines.append(f"{title_of(why)}: {links.count:,} {why.removeprefix(SKIPPED)}{example}")
        lines += [f"Not queued: {one.where}: {one.text}: {one.reason}" for one in self.refused[:MAX_ERRORS]]
        return [*lines, *self.notes]

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self.headline)}</b></p>"
        lines = "".join(f"<div>{escape(printable(line))}</div>" for line in self.lines)
        return f"{head}{lines}{_table(self.items)}"


def _table(items: Sequence[Any]) -> str:
    """Return the first items as an HTML table; everything in it comes from pages, and is escaped."""
    rows = [plain(item) for item in items[:MAX_ROWS]]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = names[:MAX_COLUMNS]
    head = "".join(f"<th>{_cell(name)}</th>" for name in shown)
    cells = ["".join(f"<td>{_cell(row.get(name, ''))}</td>" for name in shown) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    more = [f"{len(items) - len(rows):,} more items"] if len(items) > len(rows) else []
    more += [f"{len(names) - len(shown)} more fields"] if len(names) > len(shown) else []
    foot = f"<p>{' and '.join(more)}</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _cell(value: Any) -> str:
    return escape(printable(shorten(str(value), MAX_CELL)))


class ItemDecoder:
    """Turns stored items back into the types that the steps declare with `item=`; others are dicts."""

    def __init__(self, scraper: "Scraper") -> None:
        self._checks = {name: step.check for name, step in scraper.steps.items() if step.check}

    def decode(self, stored: StoredItem) -> Any:
        """Return an item; as a dict if its type has changed since it was stored."""
        check = self._checks.get(stored.step)
        if check is None:
            return stored.data
        try:
            return check(stored.data)
        except (TypeError, ValueError):
            return stored.data


async def read_result(
    queue: Queue, summary: Summary, *, items: list[Any], notes: Sequence[str] = ()
) -> RunResult:
    """Return the result of a run with these items; its rejects and dead letters are read."""
    run, snapshot = summary.run, summary.snapshot
    counts = {name: value for name, value in summary.as_json().items() if type(value) is int}
    counts["missing"] = snapshot.missing.count
    counts["files"] = snapshot.files.stored
    rejects = [one async for one in first(queue.rejects(run.id), MAX_LISTED)]
    dead = [one async for one in first(queue.dead(run.id), MAX_LISTED)]
    cut = [
        f"Only the first {MAX_LISTED:,} of {total:,} {what} are in the result."
        for what, total in (("rejects", counts["rejected"]), ("dead letters", counts["dead"]))
        if total > MAX_LISTED
    ]
    has_nothing_new = summary.enqueued.known and not snapshot.stats.tasks
    return RunResult(
        scraper=run.scraper,
        run_id=run.id,
        state=str(ReportedState.FINISHED if has_nothing_new else snapshot.state),
        reason=snapshot.reason,
        outcome=RunOutcome.COMPLETE if has_nothing_new else snapshot.outcome,
        outcome_reason=snapshot.verdict.reason if snapshot.verdict else "",
        findings=list(snapshot.findings),
        seconds=summary.seconds,
        counts=counts,
        items=items,
        rejects=rejects,
        dead=dead,
        left_out=dict(snapshot.not_followed),
        missing=list(snapshot.missing.examples),
        files=snapshot.files,
        refused=list(summary.enqueued.refused),
        hooks=dict(snapshot.hooks),
        notes=[*cut, *([LOST] if snapshot.lost_counts else []), *notes],
    )
