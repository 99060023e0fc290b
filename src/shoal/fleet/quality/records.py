"""The record of a run that has ended: its statistics, its outcome, and what was found. One note for each run.

The records of a scraper outlive its runs, without their examples: so the runs of a month can be compared even
if only the items of the last night are kept.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.model import Run, RunState, Stats
from shoal.core.run_outcome import Finding, Verdict
from shoal.fleet.quality.profile import StepProfile
from shoal.queue.contract import Queue, SharedNotes

TTL = timedelta(days=365)
MAX_BYTES = 4 << 20  # of the records of one scraper; the oldest are removed
GOOD_RUNS = 3  # before later runs are compared with them
FREQUENT = 5  # items that have a value which stays when they are deleted
MAX_BASELINE = 7  # good runs with which a run is compared


class RunMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run was when it was judged: a run that has gone on since has another one."""

    state: RunState
    tasks: int
    completed: int
    dead: int
    remaining: int
    items: int

    @classmethod
    def of(cls, run: Run, stats: Stats) -> "RunMark":
        """Return how far a run is."""
        return cls(
            state=run.state,
            tasks=stats.tasks,
            completed=stats.completed,
            dead=stats.dead,
            remaining=stats.remaining,
            items=stats.items,
        )


class RunProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of the items and tasks of one run."""

    run_id: str
    started_at: datetime
    args: str = ""  # runs with other arguments are not compared
    cut: str = ""  # the limit at which it ended: others have other volumes
    items: int = 0
    completed: int = 0
    dead: int = 0
    rejected: int = 0
    blocked: int = 0  # dead letters whose host rejected the request
    steps: dict[str, StepProfile] = {}

    def share(self, what: str, step: str | None = None) -> float:
        """Return the part of the tasks that are dead or blocked, of the items that are rejects, or of the
        completed tasks of a step that yielded no item."""
        one = self.steps.get(step, StepProfile()) if step else self
        ended = one.completed + one.dead
        match what:
            case "rejects":
                part, whole = one.rejected, one.items + one.rejected
            case "dead":
                part, whole = one.dead, ended
            case "blocked":
                part, whole = self.blocked, self.completed + self.dead
            case _:
                chosen = [one] if isinstance(one, StepProfile) else list(self.steps.values())
                whole = sum(each.completed for each in chosen)
                part = max(0, whole - sum(each.tasks for each in chosen))
        return part / whole if whole else 0.0


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was judged when it had ended."""

    mark: RunMark
    verdict: Verdict
    findings: list[Finding] = []
    accepted: bool = False  # its data are right whatever was found, and later runs are compared with it


class QualityRecord(JudgedRun, frozen=True, kw_only=True):
    """All that is kept of a run that has ended."""

    profile: RunProfile

    @property
    def is_good(self) -> bool:
        """Whether later runs may be compared with this one."""
        has_changed = any(finding.since for finding in self.findings)
        is_right = self.verdict.outcome.is_good and not has_changed
        return (is_right or self.accepted) and bool(self.profile.items)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(QualityRecord).decode
_decode_judged = msgspec.json.Decoder(JudgedRun).decode


def topic_of(scraper: str) -> str:
    """Return the topic of the records of a scraper's runs."""
    return f"run records {scraper}"[:200]


async def read_record(queue: SharedNotes, run: Run) -> QualityRecord | None:
    """Return the record of a run, as it was when it was judged last."""
    note = (await queue.notes(topic_of(run.scraper), [run.id])).get(run.id)
    return _decode(note.value) if note else None


async def read_judged(queue: SharedNotes, run: Run, stats: Stats) -> JudgedRun | None:
    """Return how a run was judged, unless it has gone on since."""
    note = (await queue.notes(topic_of(run.scraper), [run.id])).get(run.id)
    judged = _decode_judged(note.value) if note else None
    return judged if judged and judged.mark == RunMark.of(run, stats) else None


async def read_records(queue: SharedNotes, scraper: str) -> list[QualityRecord]:
    """Return the records of a scraper's runs, the newest first."""
    found = [_decode(note.value) for note in (await queue.notes(topic_of(scraper))).values()]
    return sorted(found, key=lambda record: record.profile.started_at, reverse=True)


async def write_record(queue: SharedNotes, run: Run, record: QualityRecord) -> None:
    """Store the record of a run, and remove the oldest ones of its scraper if there are many."""
    await queue.write_notes(topic_of(run.scraper), {run.id: _encode(record)}, ttl=TTL)
    await queue.trim_notes(topic_of(run.scraper), max_bytes=MAX_BYTES)


async def forget_record(queue: Queue, run: Run, *, keeps_numbers: bool) -> None:
    """Remove the record of a deleted run, or only what it holds of items."""
    record = await read_record(queue, run) if keeps_numbers else None
    value = _encode(without_items(record)) if record else None
    await queue.write_notes(topic_of(run.scraper), {run.id: value}, ttl=TTL)


def without_items(record: QualityRecord) -> QualityRecord:
    """Return a record without items: only counts and types stay, and values that many items have."""
    steps = {
        name: replace(
            step,
            examples=[],
            violations={},
            fields={
                field: replace(one, examples=[], values=_frequent(one.values))
                for field, one in step.fields.items()
            },
        )
        for name, step in record.profile.steps.items()
    }
    findings = [replace(finding, then=None, now=None) for finding in record.findings]
    return replace(record, profile=replace(record.profile, steps=steps), findings=findings)


def _frequent(values: Mapping[str, int] | None) -> dict[str, int] | None:
    return {value: count for value, count in values.items() if count >= FREQUENT} if values else None


def with_same_volume(baseline: Sequence[RunProfile], run: RunProfile) -> list[RunProfile]:
    """Return the runs with whose number of items that of a run can be compared."""
    return [other for other in baseline if other.cut == run.cut]


def baseline_of(records: Sequence[QualityRecord], profile: RunProfile) -> list[RunProfile]:
    """Return the last good runs before a run, the newest first; none if there are too few.

    One that was accepted is enough, and those before it do not count: what they had is no longer expected.
    """
    found: list[RunProfile] = []
    for record in records:
        other = record.profile
        if other.started_at >= profile.started_at or other.args != profile.args or not record.is_good:
            continue
        found.append(other)
        if record.accepted or len(found) == MAX_BASELINE:
            return found
    return found if len(found) >= GOOD_RUNS else []
