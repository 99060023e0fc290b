"""The timelines of a record: a failover ends one, and the next continues with what the replica had.

What a client was told is an event: it happened between two moments. An event whose moments leave open on
which timeline it happened accuses nobody: its task is left out of the timeline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tools.histories.record import Entered, Failover, Holding, Record

PLAY = timedelta(milliseconds=2)  # stores count in milliseconds or floats


@dataclass(frozen=True)
class Timeline:
    """What happened on one line of servers, each of which had the data of the one before."""

    record: Record
    left_out: frozenset[str] = frozenset()  # tasks of which an event is in doubt
    is_last: bool = True  # the one that the store's own account is about


def timelines(record: Record) -> Iterator[Timeline]:
    """Yield the timeline that each failover ended, and the last one."""
    for number, failover in enumerate(record.failovers):
        yield _timeline(record, _Line(record.failovers[:number], failover))
    yield _timeline(record, _Line(record.failovers, None)) if record.failovers else Timeline(record)


@dataclass(frozen=True)
class _Line:
    """A timeline that came through some failovers and was ended by another, or by none."""

    passed: Sequence[Failover]
    end: Failover | None

    def has(self, begin: datetime, end: datetime) -> bool | None:
        """Tell whether an event between two moments belongs to it; None if that is in doubt."""
        kept = [_outlives(one, begin, end) for one in self.passed]
        if self.end:
            kept.append(_is_before(self.end, begin, end))
        if False in kept:
            return False
        return None if None in kept else True


def _outlives(failover: Failover, begin: datetime, end: datetime) -> bool | None:
    """Tell whether the new primary knows of an event; None if that is in doubt."""
    if end < failover.synced - PLAY or begin > failover.moved:
        return True
    if failover.cut_by + PLAY < begin and end < failover.moved:
        return False
    return None


def _is_before(failover: Failover, begin: datetime, end: datetime) -> bool | None:
    if begin > failover.moved:
        return False
    # A call that the old primary has not answered is repeated, and the new one answers.
    return True if end < failover.moved else None


def _timeline(record: Record, line: _Line) -> Timeline:
    doubtful: set[str] = set()
    holdings = [view for one in record.holdings if (view := _view(one, line, doubtful))]
    entries = [(one, _entry(one, line)) for one in record.entered]
    # What was granted for certain has entered.
    known = {one.task_id for one, has in entries if has} | {one.lease.task_id for one in holdings}
    doubtful |= {one.task_id for one, has in entries if has is None} - known
    told = replace(
        record,
        holdings=[one for one in holdings if one.lease.task_id not in doubtful],
        # With those in doubt: a task that entered for certain may have entered before.
        entered=[one for one, has in entries if has is not False and one.task_id not in doubtful],
        failovers=[],
    )
    return Timeline(told, frozenset(doubtful), is_last=line.end is None)


def _entry(one: Entered, line: _Line) -> bool | None:
    # A producer that was never told may have been heard at any time.
    return line.has(one.sent, one.answered or datetime.max.replace(tzinfo=UTC))


def _view(one: Holding, line: _Line, doubtful: set[str]) -> Holding | None:
    """Return a lease with what became of it on this timeline, None if it is not of it."""
    is_known = line.has(one.earliest, one.answered)
    if is_known is None:
        doubtful.add(one.lease.task_id)
    if not is_known:
        return None
    abandonments = [one.abandoned] if one.abandoned else []
    settlements = [(told, line.has(told.sent, told.answered)) for told in one.settlements]
    extensions = [(told, line.has(told.sent, told.answered)) for told in one.extensions]
    abandoned = [(told, line.has(*told)) for told in abandonments]
    if None in [has for _, has in (*settlements, *extensions, *abandoned)]:
        doubtful.add(one.lease.task_id)
    return replace(
        one,
        settlements=[told for told, has in settlements if has],
        extensions=[told for told, has in extensions if has],
        abandoned=next((told for told, has in abandoned if has), None),
    )


def forgotten(record: Record) -> Iterator[tuple[Holding, Failover]]:
    """Yield the leases that a failover has certainly lost."""
    for one in record.holdings:
        for failover in record.failovers:
            if _outlives(failover, one.earliest, one.answered) is False:
                yield one, failover
