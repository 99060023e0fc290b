"""The outcome of a run that has ended: one word, one exit code, and the sentence that says why."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from shoal.core.model import Counts, RunState
from shoal.core.values import counted

BLOCKED_SHARE = 0.5  # of the tasks that have ended, from which a run counts as blocked
MAX_REASONS = 3  # sentences in the reason of a run
MAX_NAMES = 3  # fields that one sentence names
STOPPED_BLOCKED = "dead letters with Blocked"  # in the reason of a run that `stop_when` has ended


TIME_LIMIT = "its time limit"  # how the reason of a run begins that its schedule has ended


class RunOutcome(StrEnum):
    """What became of a run. While it is at work, paused or waiting for workers, it has no outcome."""

    COMPLETE = "complete"  # everything was done
    PARTIAL = "partial"  # dead letters, lost tasks, or ended at a limit such as max_pages
    SUSPICIOUS = "suspicious"  # its data are not what was expected
    BLOCKED = "blocked"  # sites rejected most of its requests
    EMPTY = "empty"  # no item, though some were expected
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"  # stopped at its time limit, with tasks left
    FAILED = "failed"  # workers or hooks could not go on, or every task failed

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ran it; a partial run without dead letters has LIMIT_EXIT."""
        return EXIT_CODES[self]

    @property
    def words(self) -> str:
        """The outcome as text."""
        return self.replace("_", " ")


LIMIT_EXIT = 6  # of a partial run that was cut, by max_pages, max_depth or traps, and left no dead letters
EXIT_CODES = {
    RunOutcome.COMPLETE: 0,
    RunOutcome.FAILED: 1,
    RunOutcome.PARTIAL: 3,
    RunOutcome.SUSPICIOUS: 7,
    RunOutcome.BLOCKED: 8,
    RunOutcome.EMPTY: 9,
    RunOutcome.CANCELLED: 10,
    RunOutcome.TIMED_OUT: 11,
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the data of a run that was not expected."""

    text: str  # one sentence: what changed, and since which run
    kind: str = ""  # volume, filled, type …
    strict: bool = False  # whether it makes the run suspicious; else it is a warning
    step: str | None = None
    field: str | None = None
    since: str | None = None  # the run with which it was compared
    then: Any = None  # an item of that run
    now: Any = None  # an item of this one


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """All by which the outcome of a run is judged."""

    state: RunState
    counts: Counts
    reason: str = ""  # why it ended with tasks left, or with links cut
    lost: int = 0  # tasks that the store has lost
    is_cut: bool = False  # whether links were not followed because of a limit
    failure: str = ""  # why its workers or a hook of it could not go on
    timed_out: bool = False  # whether its workers were stopped at a time limit
    blocked: int = 0  # dead letters whose host rejected the request
    expects_items: bool = False
    findings: Sequence[Finding] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run, and why it is not complete."""

    outcome: RunOutcome
    exit_code: int = 0
    reason: str = ""
    warnings: list[str] = []  # the first ones, which leave the outcome as it is


def judge(run: EndedRun) -> Verdict | None:
    """Return the outcome of a run; None if it has not ended: it may go on where it is."""
    verdict = _judge(run)
    texts = sentences(finding for finding in run.findings if not finding.strict)
    warnings = _first([text for text in texts if verdict and text != verdict.reason])
    return msgspec.structs.replace(verdict, warnings=warnings) if verdict and warnings else verdict


def _judge(run: EndedRun) -> Verdict | None:
    counts = run.counts
    if run.failure:
        return _verdict(RunOutcome.FAILED, run.failure)
    if run.state is RunState.CANCELLED:
        return _verdict(RunOutcome.CANCELLED, f"cancelled with {counted(counts.remaining, 'task')} left")
    is_over_time = run.reason.startswith(TIME_LIMIT)
    if counts.remaining and (run.timed_out or is_over_time):
        reason = run.reason if is_over_time else f"{TIME_LIMIT} was reached"
        return _verdict(RunOutcome.TIMED_OUT, f"{reason} with {counted(counts.remaining, 'task')} left")
    if counts.remaining and run.state is not RunState.PARTIAL:
        return None
    return _judge_result(run)


def _judge_result(run: EndedRun) -> Verdict:
    """Judge a run by what it has got."""
    counts = run.counts
    ended = counts.completed + counts.dead
    if not counts.tasks:
        return _verdict(RunOutcome.COMPLETE, run.reason)  # nothing was new
    if STOPPED_BLOCKED in run.reason or (run.blocked and run.blocked >= BLOCKED_SHARE * ended):
        rejected = f"the host rejected {run.blocked:,} of {counted(ended, 'task')}" if run.blocked else ""
        return _verdict(RunOutcome.BLOCKED, "; ".join(filter(None, [rejected, run.reason])))
    if counts.dead and not counts.completed:
        failed = f"{counted(counts.dead, 'task')} failed, and none succeeded"
        return _verdict(RunOutcome.FAILED, run.reason or failed)
    if run.expects_items and not counts.items:
        said = [finding.text for finding in run.findings if finding.kind == "volume"]
        if counts.rejected:
            said = [f"it has no items, and {counted(counts.rejected, 'reject')}"]
        return _verdict(RunOutcome.EMPTY, said[0] if said else "it has no items")
    strict = sentences(finding for finding in run.findings if finding.strict)
    if strict:
        return _verdict(RunOutcome.SUSPICIOUS, "; ".join(_first(strict)))
    return _judge_completeness(run)


def _judge_completeness(run: EndedRun) -> Verdict:
    """Judge a run whose data are as expected."""
    counts = run.counts
    is_cut = run.is_cut or run.state is RunState.PARTIAL
    if counts.dead or run.lost:
        left = [f"{counted(counts.dead, 'task')} failed"] if counts.dead else []
        left += [f"{counted(run.lost, 'task')} lost"] if run.lost else []
        return _verdict(RunOutcome.PARTIAL, "; ".join(filter(None, [run.reason, ", ".join(left)])))
    if is_cut:
        verdict = _verdict(RunOutcome.PARTIAL, run.reason)
        return msgspec.structs.replace(verdict, exit_code=LIMIT_EXIT)
    return _verdict(RunOutcome.COMPLETE)


def sentences(findings: Iterable[Finding]) -> list[str]:
    """Return what was found, in one sentence for all fields of which it is the same: a block page empties
    every field."""
    fields: dict[tuple[str | None, str], list[str]] = {}
    for one in findings:
        name, text = one.text.split(": ", 1) if one.field and one.since else ("", one.text)
        fields.setdefault((one.step, text), []).append(name)
    return [f"{_listed(names)}: {text}" if names[0] else text for (_, text), names in fields.items()]


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    *most, last = [*names[:MAX_NAMES], *more]
    return f"{', '.join(most)} and {last}" if most else last


def _first(texts: Sequence[str]) -> list[str]:
    more = [f"and {len(texts) - MAX_REASONS} more"] if len(texts) > MAX_REASONS else []
    return [*texts[:MAX_REASONS], *more]


def _verdict(outcome: RunOutcome, reason: str = "") -> Verdict:
    return Verdict(outcome=outcome, exit_code=outcome.exit_code, reason=reason)
