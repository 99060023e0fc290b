"""Deletes old runs: by age and number, on request or when a run of a scraper with `keep` ends."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

import msgspec

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, QueueError, RunConflict, UnknownRun
from shoal.core.model import ZERO, Run, RunState, WorkerState
from shoal.core.values import counted
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.status.at_work import FINAL_STATES, is_at_work, state_of
from shoal.fleet.status.progress import Snapshot, snapshot_of
from shoal.fleet.status.rows.row import Row
from shoal.queue.contract import Queue, QueueReports
from shoal.scrape.scraper import Scraper

log = logging.getLogger(__name__)
SUMMED = ("tasks", "items", "dead", "rejected")
UNFINISHED, IN_USE = "unfinished", "in use"  # why an old run stays


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to delete: those older than `older`, except the newest `keep` of each scraper.

    Only runs that have finished or were cancelled, unless `unfinished` is set.
    """

    older: timedelta = ZERO
    keep: int = 0
    scraper: str | None = None
    unfinished: bool = False

    def __post_init__(self) -> None:
        if self.older < ZERO or self.keep < 0:
            raise InvalidInput("Neither the age nor the number of runs to keep can be negative.")
        if not self.older and not self.keep:
            raise InvalidInput("Say which runs to delete: --older 30d, --keep 10, or both.")


@dataclass(kw_only=True)
class PurgedRun(Row):
    """A run that was deleted, or that a dry run would delete, and what it had."""

    run_id: str
    scraper: str
    state: str
    started_at: str
    tasks: int
    items: int
    dead: int
    rejected: int


@dataclass(kw_only=True)
class PurgeReport(Row):
    """The deleted runs, what they had, and why others that are as old were not deleted."""

    dry_run: bool
    purged: int
    tasks: int
    items: int
    dead: int
    rejected: int
    unfinished: int = 0  # they have tasks left
    in_use: int = 0  # workers are running on them
    runs: list[PurgedRun]

    @classmethod
    def over(cls, runs: list[PurgedRun], *, dry_run: bool, unfinished: int = 0, in_use: int = 0) -> Self:
        """Return the report of these runs, with the sums of their counts."""
        sums = {name: sum(getattr(one, name) for one in runs) for name in SUMMED}
        return cls(dry_run=dry_run, purged=len(runs), runs=runs, unfinished=unfinished, in_use=in_use, **sums)


async def purge_run(queue: Queue, run_id: str, *, dry_run: bool = False) -> PurgedRun:
    """Delete one run, also one with tasks left; raises RunConflict while workers run on it."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    workers = [worker for worker in await queue.workers(run_id) if is_at_work(worker)]
    snapshot = await snapshot_of(queue, run, stats, at_work=bool(workers))
    # The workers of a run that is over end, except those that wait for calls.
    users = [worker for worker in workers if not snapshot.is_over or "own" in worker.info]
    if users and run.state is not RunState.CANCELLED:
        them = f"{counted(len(users), 'worker')} {'runs' if len(users) == 1 else 'run'} on it"
        first = f"Cancel it first: {shoal_command(f'cancel {run_id}')}"
        if snapshot.is_over:
            first = f"Stop them first; to list them: {shoal_command(f'workers {run_id}')}"
        raise RunConflict(run_id, f"is {snapshot.state} and not deleted: {them}. {first}")
    if not dry_run:
        await purge(queue, run_id)
    return PurgedRun.of(snapshot, stats, run, run_id=run.id)


async def purge_old(
    queue: Queue,
    rule: RetentionRule,
    *,
    dry_run: bool = False,
    but: str | None = None,
    now: datetime | None = None,
) -> PurgeReport:
    """Delete the runs that a rule selects, one after the other, the oldest first; never the run `but`."""
    moment, found = now or datetime.now(UTC), list[PurgedRun | str | None]()
    for run in _candidates(await queue.runs(), rule, but):
        try:
            judged = await _judge(queue, run, rule, moment)
            if isinstance(judged, PurgedRun) and not dry_run:
                await purge(queue, run.id, keeps_numbers=True)
        except UnknownRun:
            continue  # deleted by somebody else meanwhile
        found.append(judged)
    return PurgeReport.over(
        [one for one in found if isinstance(one, PurgedRun)],
        dry_run=dry_run,
        unfinished=found.count(UNFINISHED),
        in_use=found.count(IN_USE),
    )


async def apply_keep(queue: Queue, scraper: Scraper, run: Run, say: Callable[[str], object]) -> None:
    """Delete the runs of a scraper that are older than its `keep`; a failure is only reported."""
    if (age := scraper.settings.keep) is None:
        return
    try:
        report = await purge_old(queue, RetentionRule(older=age, scraper=scraper.name), but=run.id)
    except QueueError as error:
        say(f"Old runs of {scraper.name!r} could not be deleted: {error}")
        return
    if report.runs:
        log.info("Deleted runs: %s", ", ".join(one.run_id for one in report.runs))
        say(f"{words_of(report)} The setting keep says so.")


def words_of(report: PurgeReport) -> str:
    """Return what was deleted, in one line."""
    if not report.runs:
        return f"No run {'would be' if report.dry_run else 'was'} deleted."
    counts = {"run": report.purged, "task": report.tasks, "item": report.items, "dead letter": report.dead}
    runs, *rest = (counted(count, noun) for noun, count in counts.items())
    return f"{'Would delete' if report.dry_run else 'Deleted'} {runs} with {', '.join(rest)}."


def _candidates(runs: Sequence[Run], rule: RetentionRule, but: str | None) -> list[Run]:
    """Return the runs that may be deleted by their number, the oldest first."""
    newer, found = Counter[str](), list[Run]()
    for run in runs:  # the newest first
        newer[run.scraper] += 1
        if rule.scraper in (None, run.scraper) and newer[run.scraper] > rule.keep and run.id != but:
            found.append(run)
    return found[::-1]


async def _judge(queue: QueueReports, run: Run, rule: RetentionRule, now: datetime) -> PurgedRun | str | None:
    """Return a run that the rule selects; of another that is old enough, why it stays."""
    if now - run.started_at < rule.older:
        return None  # without another call: most runs are young
    workers = await queue.workers(run.id)
    # A run that took weeks is as old as the last sign of its workers.
    age = min([now - run.started_at, *(worker.last_beat for worker in workers)])
    if age < rule.older:
        return None
    if any(state_of(worker) not in (*FINAL_STATES, WorkerState.LATE) for worker in workers):
        return IN_USE
    stats = await queue.stats(run.id)
    snapshot = Snapshot(run, stats, 0, 0.0, None)
    is_done = snapshot.is_finished or run.state is RunState.CANCELLED or not stats.tasks
    if not is_done and not rule.unfinished:
        return UNFINISHED
    return PurgedRun.of(snapshot, stats, run, run_id=run.id)
