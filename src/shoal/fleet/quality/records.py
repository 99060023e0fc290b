"""The record of a run that has ended: its statistics, its outcome, and what was found. One note for each run.

The records of a scraper outlive its runs, without their examples: so the runs of a month can be compared even
if only the items of the last night are kept.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.model import Run, RunState, Stats
from shoal.core.run_outcome import Finding, RunOutcome, Verdict
from shoal.fleet.quality.profile import FieldProfile, StepProfile
from shoal.queue.contract import Queue, SharedNotes

TTL = timedelta(days=365)
MAX_BYTES = 4 << 20  # of the records of one scraper; the oldest are removed
GOOD_RUNS = 3  # before later runs are compared with them
FREQUENT = 5  # items that have a value which stays when they are deleted
MAX_BASELINE = 7  # good runs with which a run is compared
MAX_HISTORY = 60  # that show what changes from time to time
SMALL = 5  # a run with this many times fewer items is one of development: it says nothing about fields
# New values of a field, such as the offer of the month: what else a run has is as good as ever.
CHANGING = ("values", "shapes")


class RunMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run was when it was judged: a run that has gone on since has another one.

    Without its dead letters: to drop some changes nothing about its items.
    """

    tasks: int
    completed: int
    remaining: int
    items: int
    cancelled: bool = False

    @classmethod
    def of(cls, run: Run, stats: Stats) -> "RunMark":
        """Return how far a run is."""
        return cls(
            tasks=stats.tasks,
            completed=stats.completed,
            remaining=stats.remaining,
            items=stats.items,
            cancelled=run.state is RunState.CANCELLED,
        )


class RunProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of the items and tasks of one run."""

    run_id: str
    started_at: datetime
    args: str = ""  # runs with other arguments are not compared
    seeds: str = ""  # nor those with other seeds
    cut: str = ""  # the limit at which it ended, or why tasks are left: others have other volumes
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
    compared_with: list[str] = []  # runs, the newest first
    accepted: bool = False  # its data are right whatever was found, and later runs are compared with it


class QualityRecord(JudgedRun, frozen=True, kw_only=True):
    """All that is kept of a run that has ended."""

    profile: RunProfile

    @property
    def is_good(self) -> bool:
        """Whether later runs may be compared with this one."""
        has_changed = any((one.since or one.strict) and one.kind not in CHANGING for one in self.findings)
        is_right = self.verdict.outcome in GOOD and not has_changed
        return (is_right or self.accepted) and bool(self.profile.items)


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The good runs with which a run is compared, the newest first; none if there are too few."""

    fields: list[RunProfile] = []  # with enough items; up to MAX_HISTORY of them
    volumes: list[RunProfile] = []
    is_chosen: bool = False  # by the user, who compares two runs
    before: "Baseline | None" = None  # the same with runs before the one that was accepted, if any was

    def with_limit(self, cut: str) -> list[RunProfile]:
        """Return the runs that ended at the same limit, if they are enough to compare numbers of items."""
        found = [one for one in self.volumes if one.cut == cut]
        return found if len(found) >= GOOD_RUNS or self.before or self.is_chosen else []

    @property
    def last(self) -> list[RunProfile]:
        """The runs with which fields are compared."""
        return self.fields[:MAX_BASELINE]

    @property
    def run_ids(self) -> list[str]:
        """All with which a run is compared."""
        return list(dict.fromkeys(one.run_id for one in (*self.last, *self.volumes)))

    def __bool__(self) -> bool:
        return bool(self.fields or self.volumes)


GOOD = (RunOutcome.COMPLETE, RunOutcome.PARTIAL, RunOutcome.SUSPICIOUS)  # then the findings decide

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(QualityRecord).decode
_decode_judged = msgspec.json.Decoder(JudgedRun).decode


def topic_of(scraper: str) -> str:
    """Return the topic of the records of a scraper's runs."""
    return f"run records {scraper}"[:200]


def outcomes_topic(scraper: str) -> str:
    """Return the topic of how these runs were judged, which is small and stays when records are removed."""
    return f"run outcomes {scraper}"[:200]


async def read_record(queue: SharedNotes, run: Run) -> QualityRecord | None:
    """Return the record of a run, as it was when it was judged last."""
    note = (await queue.notes(topic_of(run.scraper), [run.id])).get(run.id)
    return _decode(note.value) if note else None


async def read_judged(queue: SharedNotes, run: Run, stats: Stats) -> JudgedRun | None:
    """Return how a run was judged, unless it has gone on since."""
    note = (await queue.notes(outcomes_topic(run.scraper), [run.id])).get(run.id)
    judged = _decode_judged(note.value) if note else None
    return judged if judged and judged.mark == RunMark.of(run, stats) else None


async def read_records(queue: SharedNotes, scraper: str) -> list[QualityRecord]:
    """Return the records of a scraper's runs, the newest first."""
    found = [_decode(note.value) for note in (await queue.notes(topic_of(scraper))).values()]
    return sorted(found, key=lambda record: record.profile.started_at, reverse=True)


async def write_record(queue: SharedNotes, run: Run, record: QualityRecord | None) -> None:
    """Store the record of a run, or None to forget it; remove the oldest ones if there are many."""
    judged = record and JudgedRun(**{name: getattr(record, name) for name in JudgedRun.__struct_fields__})
    for topic, value in ((topic_of(run.scraper), record), (outcomes_topic(run.scraper), judged)):
        await queue.write_notes(topic, {run.id: _encode(value) if value else None}, ttl=TTL)
    await queue.trim_notes(topic_of(run.scraper), max_bytes=MAX_BYTES)


async def forget_record(queue: Queue, run: Run, *, keeps_numbers: bool) -> None:
    """Remove the record of a deleted run, or only what it holds of items."""
    record = await read_record(queue, run) if keeps_numbers else None
    await write_record(queue, run, without_items(record) if record else None)


def without_items(record: QualityRecord) -> QualityRecord:
    """Return a record without items: only counts and types stay, and values that many items have."""
    steps = {
        name: replace(
            step,
            examples=[],
            violations={},
            fields={
                field: _without_rare_values(replace(one, examples=[])) for field, one in step.fields.items()
            },
        )
        for name, step in record.profile.steps.items()
    }
    findings = [replace(finding, then=None, now=None) for finding in record.findings]
    return replace(record, profile=replace(record.profile, steps=steps), findings=findings)


def _without_rare_values(field: FieldProfile) -> FieldProfile:
    if not field.values:
        return field
    kept = {value: count for value, count in field.values.items() if count >= FREQUENT}
    dropped = sum(field.values.values()) - sum(kept.values())
    return replace(field, values=kept, rare=field.rare + dropped)


def baseline_of(records: Sequence[QualityRecord], profile: RunProfile) -> Baseline:
    """Return the good runs before a run, with the same arguments and seeds.

    One that was accepted is enough, and those before it do not count: what they had is no longer expected.
    """
    found = [
        record
        for record in records
        if record.profile.started_at < profile.started_at
        and (record.profile.args, record.profile.seeds) == (profile.args, profile.seeds)
    ]
    good = _good(found)[:MAX_HISTORY]
    accepted = next((place for place, record in enumerate(good) if record.accepted), None)
    everything = _baseline(good, profile)
    if accepted is None:
        return everything
    return replace(_baseline(good[: accepted + 1], profile), before=everything)


def _good(records: Sequence[QualityRecord]) -> list[QualityRecord]:
    """Return the good ones, without those that were compared with a run that is not good any more."""
    is_good = dict[str, bool]()
    for record in reversed(records):
        is_right = record.accepted or all(is_good.get(run_id, True) for run_id in record.compared_with)
        is_good[record.profile.run_id] = record.is_good and is_right
    return [record for record in records if is_good[record.profile.run_id]]


def _baseline(records: Sequence[QualityRecord], profile: RunProfile) -> Baseline:
    large = [record for record in records if SMALL * record.profile.items >= profile.items]
    return Baseline(fields=_if_enough(large), volumes=_if_enough(records)[:MAX_BASELINE])


def _if_enough(records: Sequence[QualityRecord]) -> list[RunProfile]:
    is_enough = len(records) >= GOOD_RUNS or any(record.accepted for record in records)
    return [record.profile for record in records] if is_enough else []
