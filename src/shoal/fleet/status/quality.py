"""Reports of the items of runs: the fields of one, two runs side by side, and the trend over many."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import RunConflict
from shoal.core.model import Run
from shoal.core.values import counted
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import FieldProfile, Spread, StepProfile
from shoal.fleet.quality.records import (
    Baseline,
    JudgedRun,
    QualityRecord,
    RunMark,
    RunProfile,
    read_record,
    read_records,
    write_record,
)
from shoal.fleet.status.rows.row import Row, TableColumns
from shoal.fleet.status.rows.workers import join_names
from shoal.queue.contract import Queue

MAX_VALUES_SHOWN = 4
MAX_TREND = 60  # runs


@dataclass(kw_only=True)
class SpreadRow(Row):
    """The range and the median of numbers, or of lengths."""

    least: float
    median: float
    most: float


@dataclass(kw_only=True)
class FieldRow(Row):
    """What one field holds in the items of a step of a run."""

    columns = TableColumns(
        ("step", "field", "filled", "types", "distinct", "holds", "examples"),
        drops=("distinct", "examples", "step"),
        folds=("holds", "examples", "field"),
    )
    step: str
    field: str
    items: int
    filled: int
    filled_share: float
    types: dict[str, int]
    distinct: int
    more_distinct: bool
    numbers: SpreadRow | None
    lengths: SpreadRow | None
    values: dict[str, int] | None
    examples: list[Any]

    def cells(self) -> dict[str, Any]:
        """Return shares and ranges in words."""
        return {
            "filled": f"{self.filled_share:.1%}",
            "types": join_names(list(self.types)),
            "distinct": f">= {self.distinct:,}" if self.more_distinct else self.distinct,
            "holds": holds(self),
            "examples": "; ".join(map(str, self.examples)),
        }


@dataclass(kw_only=True)
class ComparedRow(Row):
    """A step, or a field of it, in two runs; `change` says what is different, if it is more than usual."""

    columns = TableColumns(
        ("step", "field", "before", "after", "change"), drops=("step",), folds=("before", "after", "change")
    )
    step: str
    field: str | None
    before: str | None
    after: str | None
    change: str | None


@dataclass(kw_only=True)
class TrendRow(Row):
    """A run of a scraper among its others: its outcome, its items, and how much of each field is filled."""

    run_id: str
    started_at: str
    outcome: str
    accepted: bool
    items: int
    dead: int
    findings: int
    filled: dict[str, float]  # by STEP.FIELD


@dataclass(kw_only=True)
class ProfileReport(Row):
    """The fields of a run's items."""

    run_id: str
    items: int
    fields: list[FieldRow]
    uncounted: list[str]  # STEP.FIELD, as far as they are listed
    more_uncounted: int

    @property
    def notice(self) -> str:
        """That some fields have no statistics; empty if all have."""
        if not self.uncounted:
            return ""
        more = f" and {self.more_uncounted:,} more" if self.more_uncounted else ""
        return f"Without statistics, as there are too many fields: {', '.join(self.uncounted)}{more}."


@dataclass(kw_only=True)
class ComparisonReport(Row):
    """Two runs side by side."""

    before: str
    after: str
    rows: list[ComparedRow]


def field_rows(profile: RunProfile) -> list[FieldRow]:
    """Return a row for each field of each step."""
    return [
        FieldRow.of(
            found,
            step=step,
            field=name,
            filled_share=round(found.filled_share, 4),
            numbers=_spread_row(found.numbers),
            lengths=_spread_row(found.lengths),
        )
        for step, one in profile.steps.items()
        for name, found in one.fields.items()
    ]


def profile_report(profile: RunProfile) -> ProfileReport:
    """Return the fields of a run's items."""
    return ProfileReport(
        run_id=profile.run_id,
        items=profile.items,
        fields=field_rows(profile),
        uncounted=[f"{step}.{name}" for step, one in profile.steps.items() for name in one.uncounted],
        more_uncounted=sum(one.more_uncounted for one in profile.steps.values()),
    )


def compare(before: RunProfile, after: RunProfile, judged: JudgedRun | None = None) -> ComparisonReport:
    """Return two runs side by side, field by field, with what is more than a usual difference.

    If the later one was judged by the earlier one, that is what was found then: also by those beside it.
    """
    if judged and before.run_id in judged.compared_with:
        findings = [finding for finding in judged.findings if finding.since]
    else:
        # Nobody asks whether their limits are the same, if they are compared by name.
        baseline = Baseline(fields=[before], volumes=[before], is_chosen=True)
        findings = differences(replace(after, cut=before.cut), baseline, lambda step, field, kind: None)
    changes: dict[tuple[str, str | None], list[str]] = {}
    for finding in findings:
        text = finding.text.removesuffix(f" (compared with run {finding.since})")
        changes.setdefault((finding.step or "", finding.field), []).append(text)
    rows = [
        ComparedRow(step="", field=None, before=None, after=None, change=text)
        for text in changes.get(("", None), [])
    ]
    for step in dict.fromkeys([*before.steps, *after.steps]):
        old, new = before.steps.get(step, StepProfile()), after.steps.get(step, StepProfile())
        for field in (None, *dict.fromkeys([*old.fields, *new.fields])):
            rows.append(
                ComparedRow(
                    step=step,
                    field=field,
                    before=_describe(old, field),
                    after=_describe(new, field),
                    change="; ".join(changes.get((step, field), [])) or None,
                )
            )
    return ComparisonReport(before=before.run_id, after=after.run_id, rows=rows)


async def trend_of(queue: Queue, scraper: str) -> list[TrendRow]:
    """Return the last judged runs of a scraper, the oldest first."""
    return [_trend_row(record) for record in (await read_records(queue, scraper))[:MAX_TREND][::-1]]


async def accept(queue: Queue, run: Run, *, undo: bool = False) -> QualityRecord:
    """Declare the items of a run right: later runs are compared with it. Raises RunConflict."""
    stats, record = await queue.stats(run.id), await read_record(queue, run)
    if record is None or record.mark != RunMark.of(run, stats) or not record.profile.items:
        why = "has no items" if record and not record.profile.items else "has not ended, or gone on since"
        raise RunConflict(run.id, f"{why}, so later runs cannot be compared with it")
    record = replace(record, accepted=not undo)
    await write_record(queue, run, record)
    return record


def holds(found: FieldProfile | FieldRow) -> str:
    """Return what a field holds in a few words: its range, its few values, or the lengths of its texts."""
    if found.numbers:
        return f"{found.numbers.least:,.6g} to {found.numbers.most:,.6g}, median {found.numbers.median:,.6g}"
    if found.values:
        shown = list(found.values)[:MAX_VALUES_SHOWN]
        more = f" and {len(found.values) - len(shown)} more" if len(found.values) > len(shown) else ""
        return f"{', '.join(shown)}{more}"
    if found.lengths:
        return f"{found.lengths.least:,.0f} to {found.lengths.most:,.0f} characters"
    return ""


def _describe(step: StepProfile, field: str | None) -> str | None:
    if field is None:
        return f"{counted(step.items, 'item')} of {counted(step.completed, 'page')}"
    found = step.fields.get(field)
    if found is None:
        return None
    return ", ".join(filter(None, [f"{found.filled_share:.1%} filled", *found.types, holds(found)]))


def _spread_row(spread: Spread | None) -> SpreadRow | None:
    return SpreadRow.of(spread) if spread else None


def _trend_row(record: QualityRecord) -> TrendRow:
    profile = record.profile
    return TrendRow.of(
        profile,
        record,
        outcome=str(record.verdict.outcome),
        findings=len(record.findings),
        filled={
            f"{step}.{name}": round(found.filled_share, 4)
            for step, one in profile.steps.items()
            for name, found in one.fields.items()
        },
    )
