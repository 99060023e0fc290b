"""Schedules and their occurrences as commands, the API and the pages report them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from shoal.core.redact import HIDDEN, is_secret_header, redacted
from shoal.fleet.schedule.definition import Schedule
from shoal.fleet.schedule.plan import Occurrence, OccurrenceState, ScheduleRecord
from shoal.fleet.status.rows.row import Row, TableColumns

STRIP = 20  # outcomes of the newest occurrences that a list shows


@dataclass(kw_only=True)
class OccurrenceRow(Row):
    """One occurrence of a schedule: when it was due, its run, and how that ended."""

    at: str
    run_id: str
    state: str
    outcome: str | None
    fired_at: str | None
    ended_at: str | None
    late: bool
    manual: bool
    reason: str | None
    warned: bool

    columns: ClassVar[TableColumns] = TableColumns(
        ("at", "run_id", "state", "outcome", "fired_at", "ended_at", "reason"), drops=("fired_at", "ended_at")
    )

    @classmethod
    def from_occurrence(cls, one: Occurrence) -> Self:
        """Return the row of an occurrence."""
        has_run = one.fired_at is not None
        return cls.of(
            one,
            run_id=one.run_id if has_run else "",
            late=one.is_late,
            manual=one.is_manual,
            outcome=one.outcome or None,
            reason=one.reason or ("there are warnings about its data" if one.warned else None),
        )


@dataclass(kw_only=True)
class ScheduleRow(Row):
    """A schedule: what it says, its next occurrence, and the newest ones, the oldest of them first."""

    name: str
    scraper: str
    when: str
    state: str  # active, paused, invalid, or over: it has no occurrence left
    next_at: str | None
    overlap: str
    missed: str
    in_project_file: bool
    table: dict[str, Any]
    occurrences: list[OccurrenceRow]

    columns: ClassVar[TableColumns] = TableColumns(
        ("name", "scraper", "when", "state", "next", "last", "outcomes"),
        drops=("outcomes", "scraper"),
    )

    @classmethod
    def from_record(cls, record: ScheduleRecord, *, limit: int = STRIP) -> Self:
        """Return the row of a schedule with its newest occurrences."""
        schedule = Schedule() if record.error else record.schedule
        is_active = record.next_at or is_new(record)
        states = {"invalid": record.error, "paused": record.paused, "active": is_active, "over": True}
        return cls.of(
            record,
            schedule,
            table=_shown(record.table),
            when=record.error or schedule.words,
            state=next(name for name, holds in states.items() if holds),
            next_at=record.next_at and record.next_at.isoformat(timespec="seconds"),
            in_project_file=record.declared is not None,
            occurrences=[OccurrenceRow.from_occurrence(one) for one in record.occurrences[-limit:]],
        )

    def cells(self) -> dict[str, Any]:
        """Return the times, and the outcomes as a strip of signs."""
        last = self.occurrences[-1] if self.occurrences else None
        return {
            "next": self.next_at or "-",
            "last": f"{last.at} {last.outcome or last.state}" if last else "-",
            "outcomes": "".join(sign_of(one) for one in self.occurrences),
        }


def _shown(value: Any, *, in_args: bool = False) -> Any:
    """Return what a schedule says without arguments and parts of addresses that may be secrets."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if in_args and is_secret_header(name) else _shown(one, in_args=name == "args")
            for name, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_shown(one) for one in value]
    return redacted(value) if isinstance(value, str) else value


def is_new(record: ScheduleRecord) -> bool:
    """Return whether no coordinator has seen a schedule of the project file yet."""
    return record.next_at is None and not record.occurrences and not record.paused


def sign_of(one: OccurrenceRow) -> str:
    """Return one character for an occurrence: + good, ~ warned, ! not good, - no run, > at work, . due."""
    if one.outcome:
        return "!" if one.outcome != "complete" else "~" if one.warned else "+"
    if one.state in (OccurrenceState.SKIPPED, OccurrenceState.MISSED):
        return "-"
    return "." if one.state == OccurrenceState.DUE else ">"
