"""Progress of a run: its counts, its rate and the estimated time left."""

import asyncio
import dataclasses
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.errors import QueueError
from shoal.core.model import ZERO, Counts, HostStatus, ReportedState, Run, RunState, Stats
from shoal.core.run_outcome import EndedRun, Finding, RunOutcome, Verdict, judge
from shoal.core.tasks import first
from shoal.core.values import counted
from shoal.fleet.quality.records import JudgedRun, read_judged
from shoal.fleet.scraper_stats import read_stats
from shoal.fleet.status.at_work import has_lost_counts, has_workers, unserved_steps
from shoal.fleet.status.hook_records import HookRecord, hook_records
from shoal.fleet.status.rates import read_rates
from shoal.fleet.status.rows.row import as_json
from shoal.fleet.status.rows.runs import (
    CountsRow,
    FilesRow,
    FindingRow,
    HookRow,
    MissingPagesRow,
    RunRow,
    RunStatusRow,
    SkippedLinksRow,
)
from shoal.fleet.status.seeding import is_seeding_interrupted
from shoal.queue.contract import Queue
from shoal.worker.counters import FileCounts, MissingPages
from shoal.worker.left_out import NOT_PAGES, LeftOut, SkippedLinks, cuts_of, describe_cuts, read_left_out

POLL_INTERVAL_SECONDS, MAX_POLL_INTERVAL_SECONDS = 0.5, 10.0  # the longer one while nothing changes
RATE_WINDOW = 15.0  # seconds over which the rate is measured
MAX_HOSTS = 1_000
HOSTS_INTERVAL_SECONDS = 5.0  # between two reads of hosts, links and workers
# The same while the counts of the run do not change, and no host is paused.
IDLE_HOSTS_INTERVAL_SECONDS = 30.0
GONE = "because RabbitMQ no longer has their messages: they were purged there, or its data was lost"


class Snapshot(msgspec.Struct, frozen=True):
    """A run at one moment."""

    run: Run
    stats: Stats
    hosts: int
    rate: float  # tasks ended per second
    eta: timedelta | None
    # Hosts with work that are paused, the soonest to resume first.
    paused: Sequence[HostStatus] = ()
    not_followed: Mapping[str, SkippedLinks] = {}  # by reason
    at_work: bool = True  # whether a live worker works on it
    missing: MissingPages = msgspec.field(default_factory=MissingPages)
    cuts: Sequence[str] = ()  # by what links were cut; known once no task is left
    files: FileCounts = msgspec.field(default_factory=FileCounts)
    hooks: Mapping[str, HookRecord] = {}  # of the run, by kind
    scraper_stats: Mapping[str, Any] = {}  # that the scraper counts itself
    lost_counts: bool = False  # whether what it has left out is a lower bound; known while it is not at work
    unserved: Mapping[str, int] = {}  # tasks left of steps that its workers lack
    lacks_seeds: bool = False  # whether enqueueing its seeds was interrupted; known once no task is left
    judged: JudgedRun | None = None  # how its items were judged, once it has ended
    duration: timedelta | None = None  # from its start until workers were last at work; None if none were

    @property
    def eta_seconds(self) -> float | None:
        """Seconds left, if that can be estimated."""
        return self.eta.total_seconds() if self.eta else None

    @property
    def duration_seconds(self) -> int | None:
        """The duration in whole seconds."""
        return round(self.duration.total_seconds()) if self.duration is not None else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens unless the run is resumed or tasks are added."""
        return self.is_finished or self.run.state.has_ended

    @property
    def may_be_judged(self) -> bool:
        """Whether it has ended, or its workers have: one whose time is over has tasks left."""
        return self.is_over or not self.at_work

    @property
    def is_finished(self) -> bool:
        """Whether the run is active and has no task left."""
        is_done = self.stats.remaining == 0 and bool(self.stats.tasks) and not self.lacks_seeds
        return self.run.state is RunState.RUNNING and is_done

    @property
    def waits_for(self) -> str | None:
        """The paused hosts that a run without leased tasks waits for, as text."""
        if self.stats.leased or not self.stats.remaining or not self.paused:
            return None
        soonest = self.paused[0]
        others = f" and {len(self.paused) - 1:,} more" if len(self.paused) > 1 else ""
        seconds = (soonest.paused_for or ZERO).total_seconds()
        return f"{soonest.host}{others}, paused for {seconds:,.0f} s"

    @property
    def state(self) -> ReportedState:
        """The state in one word: a running run without tasks left is finished, or partial if links were cut.

        One with tasks or seeds left and without workers is stopped; waiting if no task has been done yet.
        """
        if self.is_cut:
            return ReportedState.PARTIAL
        if self.is_finished:
            return ReportedState.FINISHED
        has_work = self.stats.remaining or self.lacks_seeds
        if self.run.state is not RunState.RUNNING or self.at_work or not has_work:
            return ReportedState(self.run.state)
        is_untouched = self.stats.tasks == self.stats.pending + self.stats.delayed and not self.lacks_seeds
        return ReportedState.WAITING if is_untouched else ReportedState.STOPPED

    @property
    def lacks_workers(self) -> bool:
        """Whether it goes on only when a worker is started."""
        return self.state in (ReportedState.WAITING, ReportedState.STOPPED)

    @property
    def has_final_counts(self) -> bool:
        """Whether nothing is being counted: while a run is at work, all counts are those so far."""
        return self.state is not ReportedState.RUNNING

    @property
    def pages(self) -> int:
        """The pages that were fetched and handled: completed, and not a download, missing or left out."""
        others = sum(self.not_followed[why].count for why in NOT_PAGES if why in self.not_followed)
        return max(0, self.stats.completed - self.missing.count - others - self.files.ended)

    @property
    def is_cut(self) -> bool:
        """Whether no task is left only because links were cut, or tasks were lost."""
        return self.is_finished and bool(self.cuts or self.stats.lost)

    @property
    def reason(self) -> str:
        """Why a partial run is partial; otherwise empty."""
        cut = describe_cuts(self.cuts) if self.is_cut else ""
        is_lost = self.is_cut or self.run.state is RunState.PARTIAL
        return "; ".join(filter(None, [self.run.reason or cut, self.lost_tasks if is_lost else ""]))

    @property
    def verdict(self) -> Verdict | None:
        """How it ended; None while it may go on. If nobody has judged its items, its tasks decide."""
        if self.judged and (self.judged.verdict.outcome is not RunOutcome.PARTIAL or not self.is_over):
            return self.judged.verdict
        if not self.is_over:
            return None
        return judge(
            EndedRun(
                state=self.run.state,
                counts=self.stats,
                reason=self.reason,
                lost=self.stats.lost,
                is_cut=self.is_cut,
                findings=self.findings,
            )
        )

    @property
    def outcome(self) -> RunOutcome | None:
        """The outcome of the run in one word; None while it may go on."""
        return self.verdict.outcome if self.verdict else None

    @property
    def findings(self) -> Sequence[Finding]:
        """What is not as expected in its items, or differs from earlier runs."""
        return self.judged.findings if self.judged else ()

    @property
    def compared_with(self) -> Sequence[str]:
        """The runs with which its items were compared, the newest first."""
        return self.judged.compared_with if self.judged else ()

    @property
    def lost_tasks(self) -> str:
        """What the store has lost of the run, as text; empty if nothing."""
        if not self.stats.lost:
            return ""
        return f"{counted(self.stats.lost, 'task')} {'was' if self.stats.lost == 1 else 'were'} lost, {GONE}"

    def with_rate(self, rate: float) -> "Snapshot":
        """Return the same with a rate, and the time left that follows from it."""
        # The rate of workers that are gone says nothing about the time left.
        has_eta = rate > 0 and self.stats.remaining and self.at_work and not self.run.state.has_ended
        return replace(
            self, rate=rate, eta=timedelta(seconds=self.stats.remaining / rate) if has_eta else None
        )

    def row(self) -> RunStatusRow:
        """Return the run as `shoal status RUN --json` reports it."""
        return RunStatusRow.of(
            self,
            self.stats,
            self.run,
            run_id=self.run.id,
            reason=self.reason or None,
            outcome_reason=self.verdict.reason or None if self.verdict else None,
            findings=[FindingRow.of(finding) for finding in self.findings],
            rate=round(self.rate, 2),
            eta_seconds=round(self.eta.total_seconds()) if self.eta else None,
            steps={name: CountsRow.of(counts) for name, counts in self.stats.steps.items()},
            partitions={name: CountsRow.of(counts) for name, counts in sorted(self.stats.partitions.items())},
            not_followed={reason: SkippedLinksRow.of(links) for reason, links in self.not_followed.items()},
            missing=MissingPagesRow.of(self.missing),
            files=FilesRow.of(self.files),
            hooks={
                kind: HookRow.of(
                    record,
                    hook=record.hook or None,
                    error=f"{record.hook}: {record.error}" if record.error else None,
                )
                for kind, record in self.hooks.items()
            },
        )

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal status RUN --json` promises."""
        return as_json(self.row())


def live_counts(run: Run, counts: Counts) -> Counts:
    """Return the counts of a run for a sum over runs: without tasks that wait in one that has ended."""
    return dataclasses.replace(counts, pending=0, delayed=0) if run.state.has_ended else counts


async def read_run_row(queue: Queue, run: Run, *, at_work: bool = True) -> RunRow:
    """Return a run as in `shoal runs --json`; `at_work` is whether a live worker works on it."""
    snapshot = await snapshot_of(queue, run, await queue.stats(run.id), at_work=at_work)
    return RunRow.of(snapshot, snapshot.stats, run, run_id=run.id, reason=snapshot.reason or None)


async def snapshot_of(queue: Queue, run: Run, stats: Stats, *, at_work: bool = True) -> Snapshot:
    """Return a run at this moment, without its rate and what it has left out; with state and duration."""
    lacks_seeds = await _lacks_seeds(queue, run, stats)
    if lacks_seeds:
        at_work = await has_workers(queue, run.id)
    return await _with_end(
        queue, Snapshot(run, stats, 0, 0.0, None, at_work=at_work, lacks_seeds=lacks_seeds)
    )


async def _with_end(queue: Queue, snapshot: Snapshot, *, last: bool = False) -> Snapshot:
    """Return a snapshot with its duration, and with what is known at the end of a run or the `last` read."""
    run = snapshot.run
    cuts = await cuts_of(queue, run.id) if snapshot.is_finished else ()
    is_judged = last or snapshot.may_be_judged
    judged = await read_judged(queue, run, snapshot.stats) if is_judged else None
    return replace(snapshot, cuts=cuts, judged=judged, duration=await _duration(queue, snapshot))


async def _duration(queue: Queue, snapshot: Snapshot) -> timedelta | None:
    """Return the time from the start of a run until workers were last at work on it."""
    if snapshot.state is ReportedState.RUNNING:
        until = datetime.now(UTC)
    elif points := (await read_rates(queue, snapshot.run.id)).points:
        until = datetime.fromtimestamp(points[-1][0], UTC)
    else:
        return None
    # The start is a time of the store, whose clock may be ahead of this machine's.
    return max(until - snapshot.run.started_at, ZERO)


async def _lacks_seeds(queue: Queue, run: Run, stats: Stats) -> bool:
    """Return whether a run without tasks left is not finished, because its seeds are not all enqueued."""
    if stats.remaining or run.state is not RunState.RUNNING:
        return False
    return await is_seeding_interrupted(queue, run.id)


async def with_details(queue: Queue, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with what the run has left out, its files and its hooks."""
    run_id = snapshot.run.id
    left_out = await read_left_out(queue, run_id)
    lost = snapshot.has_final_counts and await has_lost_counts(queue, run_id, left_out)
    unserved = await unserved_steps(queue, run_id, snapshot.stats)
    details = await _details_of(queue, run_id, left_out)
    return replace(snapshot, **details, lost_counts=lost, unserved=unserved)


async def _details_of(queue: Queue, run_id: str, left_out: LeftOut) -> dict[str, Any]:
    """Return the fields of a snapshot that are read from the notes of workers and hooks."""
    return {
        "not_followed": left_out.links,
        "missing": left_out.missing,
        "files": left_out.files,
        "hooks": await hook_records(queue, run_id),
        "scraper_stats": await read_stats(queue, run_id),
    }


class ProgressReader:
    """Reads a run repeatedly, and computes its rate."""

    def __init__(self, queue: Queue, run_id: str, *, with_hosts: bool = True) -> None:
        """Hosts are many: who does not show them reads without."""
        self._queue, self._run_id, self._with_hosts = queue, run_id, with_hosts
        self._stats: Stats | None = None  # when hosts and links were last read
        self._seen: deque[tuple[float, int, int]] = deque()
        self._hosts, self._paused, self._hosts_at = 0, list[HostStatus](), 0.0
        self._left_out = LeftOut()
        self._details: dict[str, Any] = {}  # of the next snapshot
        self._at_work, self._at_work_at = False, 0.0

    async def read(self, *, last: bool = False, at_work: bool | None = None) -> Snapshot:
        """Return a snapshot of the run; with `last`, skipped links and workers are up to date too.

        Who has read the workers already says with `at_work` whether one of them works on the run.
        """
        run = await self._queue.run(self._run_id)
        stats = await self._queue.stats(self._run_id)
        now = time.monotonic()
        rate, is_shrinking = self._rate(now, stats.completed + stats.dead, stats.remaining)
        await self._read_details(now, stats, last=last)
        lacks_seeds = await _lacks_seeds(self._queue, run, stats)
        if at_work is None:
            at_work = await self._read_at_work(now, last) if stats.remaining or lacks_seeds else True
        snapshot = Snapshot(
            run,
            stats,
            self._hosts,
            0.0,
            None,
            self._paused,
            at_work=at_work,
            lacks_seeds=lacks_seeds,
            **self._details,
        ).with_rate(rate)
        if not is_shrinking:  # an endless site would have an ETA of no time
            snapshot = replace(snapshot, eta=None)
        snapshot = await _with_end(self._queue, snapshot, last=last)
        if not (last or snapshot.has_final_counts):
            return snapshot
        lost = await has_lost_counts(self._queue, self._run_id, self._left_out if last else None)
        return replace(snapshot, lost_counts=lost)

    def _rate(self, now: float, ended: int, left: int) -> tuple[float, bool]:
        """Return the tasks that end per second, and whether fewer are left than before."""
        if self._seen and ended < self._seen[-1][1]:
            self._seen.clear()  # dead letters were replayed, or the store was restored from a backup
        self._seen.append((now, ended, left))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_WINDOW:
            self._seen.popleft()
        then, before, left_before = self._seen[0]
        return (ended - before) / (now - then) if now > then else 0.0, left < left_before

    async def _read_at_work(self, now: float, last: bool) -> bool:
        # Not on every read: there may be thousands. But a run that is started must not seem stopped.
        if last or not self._at_work or now >= self._at_work_at + HOSTS_INTERVAL_SECONDS:
            self._at_work, self._at_work_at = await has_workers(self._queue, self._run_id), now
        return self._at_work

    async def _read_details(self, now: float, stats: Stats, *, last: bool) -> None:
        """Read hosts and links, but not every time: there may be a million hosts."""
        is_idle = stats == self._stats and not self._paused
        interval = IDLE_HOSTS_INTERVAL_SECONDS if is_idle else HOSTS_INTERVAL_SECONDS
        is_due = now >= self._hosts_at + interval
        if self._with_hosts and (is_due or not self._hosts):
            await self._read_hosts()
        if is_due or last:
            self._left_out = await read_left_out(self._queue, self._run_id)
            self._details = await _details_of(self._queue, self._run_id, self._left_out)
        if is_due:
            self._hosts_at, self._stats = now, stats

    async def _read_hosts(self) -> None:
        hosts = [host async for host in first(self._queue.hosts(self._run_id), MAX_HOSTS)]
        paused = [host for host in hosts if host.paused_for and host.counts.remaining]
        self._hosts = len(hosts)
        self._paused = sorted(paused, key=lambda host: host.paused_for or ZERO)


async def follow_progress(
    progress: ProgressReader,
    report: Callable[[Snapshot], None],
    *,
    is_at_work: Callable[[], bool],
    check: Callable[[Snapshot], Awaitable[None]] | None = None,
    is_needed: Callable[[], bool] = lambda: True,
) -> None:
    """Report the progress of a run until cancelled, less often while nothing changes; then `check` it.

    `is_at_work` says whether a worker of the caller works on it: then it does not read all that do, which in
    a large fleet are many, for each of its launchers. While it is not needed, the run is not read.
    """
    wait, before = POLL_INTERVAL_SECONDS, None
    while True:
        if not is_needed():
            await asyncio.sleep(MAX_POLL_INTERVAL_SECONDS)
            continue
        with suppress(QueueError):
            snapshot = await progress.read(at_work=is_at_work() or None)
            report(snapshot)
            is_changed = snapshot.stats != before
            wait = POLL_INTERVAL_SECONDS if is_changed else min(2 * wait, MAX_POLL_INTERVAL_SECONDS)
            before = snapshot.stats
            if check:
                await check(snapshot)
        await asyncio.sleep(wait)
