"""The occurrences of a schedule: which are due, skipped, missed or over. Pure: the store's time is passed in.

All of it is one note in the queue, which is only ever swapped. So of many coordinators that find an
occurrence due, one records it; and every decision about it, by any process, is one such swap.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.fleet.schedule.definition import Schedule

GRACE = timedelta(minutes=5)  # an occurrence that nobody recorded for longer was missed
MAX_WAITING = 20  # occurrences that wait for the run before
MAX_HISTORY = 100  # occurrences that are remembered
NEXT_WAS_DUE = "the next one was due"
WAS_PAUSED = "the schedule was paused"


class OccurrenceState(StrEnum):
    """How far an occurrence is."""

    DUE = "due"  # its run is to be created, when the one before is over
    STARTING = "starting"  # its run is being created
    RUNNING = "running"
    CANCELLING = "cancelling"  # the next one is due, and `overlap` says cancel
    ENDED = "ended"
    SKIPPED = "skipped"  # the run before was not over
    MISSED = "missed"  # no coordinator was there

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self not in (OccurrenceState.ENDED, OccurrenceState.SKIPPED, OccurrenceState.MISSED)


class Occurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One time of a schedule, the run that it has, and what became of it."""

    at: datetime
    run_id: str
    state: OccurrenceState = OccurrenceState.DUE
    is_late: bool = False  # stands for those that were missed before it
    is_manual: bool = False  # asked for by run-now
    fired_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str = ""
    reason: str = ""
    warned: bool = False  # whether there are warnings about its data


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as the queue has it; `declared` is what the file `origin` says, if it is from one."""

    name: str
    table: dict[str, Any]
    declared: dict[str, Any] | None = None
    origin: str = ""
    error: str = ""  # why it cannot be read; then it has nothing else
    paused: bool = False
    next_at: datetime | None = None
    occurrences: list[Occurrence] = []  # the oldest first

    @property
    def schedule(self) -> Schedule:
        """What it says."""
        return Schedule.read(f"schedules.{self.name}", self.table)

    @property
    def open(self) -> list[Occurrence]:
        """The occurrences that are not over; the first is the one to work on."""
        return [one for one in self.occurrences if one.state.is_open]

    def find(self, run_id: str) -> Occurrence | None:
        """Return the occurrence with this run."""
        return next((one for one in self.occurrences if one.run_id == run_id), None)


Transition = Callable[[ScheduleRecord], ScheduleRecord]


def scheduled(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """Return a record whose next occurrence is after now, and after all that it had.

    One that is past and not recorded yet stays: it waits for its jitter, or for a coordinator.
    """
    begin = min(now, record.next_at - datetime.resolution) if record.next_at else now
    latest = max([begin, *(one.at for one in record.occurrences if not one.is_manual)])
    return replace(record, next_at=None if record.paused else record.schedule.next_after(latest))


def advance(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """Record every occurrence that is due by now, each exactly once."""
    schedule = record.schedule
    while record.next_at and schedule.due_at(record.name, at := record.next_at) <= now:
        upcoming = schedule.next_after(at)
        if now - schedule.due_at(record.name, at) > GRACE:
            upcoming = schedule.next_after(now - GRACE)
            is_last = upcoming is None or schedule.due_at(record.name, upcoming) > now
            if schedule.missed == "once" and is_last:
                record = _add(record, _occurrence(record.name, at, is_late=True), schedule.overlap, now)
            else:
                until = f" until {upcoming:%Y-%m-%d %H:%M} UTC" if upcoming else ""
                reason = f"no coordinator was there{until}"
                record = _put(
                    record, _closed(_occurrence(record.name, at), OccurrenceState.MISSED, now, reason)
                )
        else:
            record = _add(record, _occurrence(record.name, at), schedule.overlap, now)
        record = replace(record, next_at=upcoming)
    return record


def run_now(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """Add an occurrence that is due now; it waits for the run before."""
    taken = {one.run_id for one in record.occurrences}
    wanted = _occurrence(record.name, now.replace(microsecond=0), is_manual=True)
    while wanted.run_id in taken:  # asked for twice within a second
        wanted = replace(wanted, run_id=f"{wanted.run_id}_2")
    return _put(record, wanted)


def started(run_id: str, state: OccurrenceState, now: datetime) -> Transition:
    """Return the transition by which an occurrence goes on to STARTING, and then to RUNNING."""
    before = {
        OccurrenceState.STARTING: (OccurrenceState.DUE,),
        OccurrenceState.RUNNING: (OccurrenceState.STARTING,),
    }[state]

    def change(record: ScheduleRecord) -> ScheduleRecord:
        found = record.find(run_id)
        if found is None or found.state not in before:
            return record
        return _put(record, replace(found, state=state, fired_at=found.fired_at or now))

    return change


def ended(run_id: str, verdict: Verdict, now: datetime) -> Transition:
    """Return the transition by which an occurrence ends, unless it has."""

    def change(record: ScheduleRecord) -> ScheduleRecord:
        found = record.find(run_id)
        if found is None or not found.state.is_open:
            return record
        is_replaced = found.state is OccurrenceState.CANCELLING and verdict.outcome is RunOutcome.CANCELLED
        closed = _closed(found, OccurrenceState.ENDED, now, NEXT_WAS_DUE if is_replaced else verdict.reason)
        return _put(record, replace(closed, outcome=verdict.outcome, warned=bool(verdict.warnings)))

    return change


def paused(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    """Return a record of which nothing is due, nor waits, except what was asked for by hand."""
    for one in record.open:
        if one.state is OccurrenceState.DUE and not one.is_manual:
            record = _put(record, _closed(one, OccurrenceState.SKIPPED, now, WAS_PAUSED))
    return replace(record, paused=True, next_at=None)


def _occurrence(name: str, at: datetime, *, is_late: bool = False, is_manual: bool = False) -> Occurrence:
    suffix = "_now" if is_manual else ""
    run_id = f"{name}_{at.astimezone(UTC):%Y%m%d_%H%M%S}{suffix}"
    return Occurrence(at=at, run_id=run_id, is_late=is_late, is_manual=is_manual)


def _add(record: ScheduleRecord, due: Occurrence, overlap: str, now: datetime) -> ScheduleRecord:
    before = record.open
    if overlap == "cancel":
        for one in before:
            if one.state is OccurrenceState.DUE:
                record = _put(record, _closed(one, OccurrenceState.SKIPPED, now, NEXT_WAS_DUE))
            else:
                record = _put(record, replace(one, state=OccurrenceState.CANCELLING))
    elif before and (overlap == "skip" or len(before) > MAX_WAITING):
        waiting = f" and {len(before) - 1} wait for it" if len(before) > 1 else ""
        reason = f"run {before[0].run_id} was not over{waiting}"
        due = _closed(due, OccurrenceState.SKIPPED, now, reason)
    return _put(record, due)


def _closed(one: Occurrence, state: OccurrenceState, now: datetime, reason: str) -> Occurrence:
    return replace(one, state=state, ended_at=now, reason=reason)


def _put(record: ScheduleRecord, one: Occurrence) -> ScheduleRecord:
    """Return a record with this occurrence, in place of the one with its run, or as the last one."""
    found = list(record.occurrences)
    places = [place for place, other in enumerate(found) if other.run_id == one.run_id]
    if places:
        found[places[0]] = one
    else:
        found.append(one)
    return replace(record, occurrences=_remembered(found))


def _remembered(found: Sequence[Occurrence]) -> list[Occurrence]:
    closed = [one.run_id for one in found if not one.state.is_open]
    forgotten = set(closed[: max(0, len(closed) - MAX_HISTORY)])
    return [one for one in found if one.run_id not in forgotten]
