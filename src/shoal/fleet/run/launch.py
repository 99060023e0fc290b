"""Runs an opened run on this machine: enqueues, works, writes the items, and returns a summary."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from shoal.core.errors import ExportFailed
from shoal.core.model import Run
from shoal.fleet.job import Job
from shoal.fleet.left_to_others import Left, left_to_others
from shoal.fleet.run.host import MakePool, RunHost
from shoal.fleet.run.open_run import OpenedRun, RunEnqueueReport
from shoal.fleet.run.pool import PoolExit, RunObserver, WorkerPool
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.sources.recrawl import Comparison, compared
from shoal.fleet.status.find import deletion_named
from shoal.fleet.status.findings import RunFindings, read_findings
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rows.row import as_json

# Of what `shoal status --json` says of a run.
REPORTED = (
    *("outcome", "outcome_reason", "findings", "compared_with", "not_followed", "missing", "files"),
    *("hooks", "scraper_stats"),
)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, or how far it got."""

    run: Run
    job: Job  # with the settings of the run
    enqueued: RunEnqueueReport
    before: int  # pages that were completed at the start
    snapshot: Snapshot
    ending: PoolExit
    seconds: float
    compared: Comparison | None = None  # with the run that is recrawled
    findings: RunFindings = msgspec.field(default_factory=RunFindings)

    def __repr__(self) -> str:
        counts = self.snapshot.stats
        return (
            f"Summary(run_id={self.run.id!r}, state={str(self.snapshot.state)!r}, "
            f"completed={counts.completed}, dead={counts.dead}, items={counts.items}, "
            f"seconds={self.seconds:.1f})"
        )

    @property
    def queued_nothing(self) -> bool:
        """Whether there was nothing to do because no seed could be queued, or none of the sources read."""
        return bool(self.enqueued.invalid) and not self.snapshot.stats.tasks and not self.enqueued.known

    @property
    def left_to_others(self) -> Left | None:
        """The tasks left by step or by partition, if its workers run none of them."""
        return left_to_others(self.snapshot.stats, self.job)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal run --json` promises."""
        stats, report = self.snapshot.stats, self.snapshot.as_json()
        return {
            "run_id": self.run.id,
            "enqueued": self.enqueued.added,
            "pages": self.snapshot.pages,
            "completed": stats.completed,
            "dead": stats.dead,
            "expired": stats.expired,
            "lost": stats.lost,
            "items": stats.items,
            "rejected": stats.rejected,
            "state": self.snapshot.state,
            "reason": self.snapshot.reason or None,
            **{name: report[name] for name in REPORTED},
            "failures": list(dict.fromkeys(self.ending.failures)),
            "lost_counts": self.snapshot.lost_counts,
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(max(stats.completed - self.before, 0) / self.seconds, 2)
            if self.seconds
            else 0.0,
            "remaining": stats.remaining,
            "left_to_others": left.as_json() if (left := self.left_to_others) else {},
            "invalid": self.enqueued.invalid,
            "refused": [as_json(one) for one in self.enqueued.refused],
            "known": self.enqueued.known,
            **self.findings.as_json(),
            **(self.compared.as_json() if self.compared else {}),
        }


async def launch(
    opened: OpenedRun,
    observer: RunObserver,
    *,
    results: ResultWriter | None = None,
    on_pool: Callable[[WorkerPool], None] = lambda pool: None,
    make_pool: MakePool = WorkerPool,
) -> Summary:
    """Enqueue the seeds of a run, work until it is drained or stopped, and return a summary."""
    began = time.monotonic()
    queue, job, run = opened.queue, opened.job, opened.run
    with deletion_named(run.id):
        async with RunHost(queue, job, run, observer, lock=opened.lock, make_pool=make_pool) as host:
            before = (await queue.stats(run.id)).completed
            enqueued = await opened.enqueue()
            async with results or ResultWriter(queue, run.id, None) as writer:
                writer.when_lost(host.pool.stop)
                on_pool(host.pool)
                ending = await host.work()
                snapshot = await host.progress.read(last=True)
                try:
                    await writer.finish(snapshot.stats.items)
                except ExportFailed as error:
                    raise writer.with_command(error, job.queue_url) from error
    return await summarize(opened, enqueued, snapshot, ending, before=before, began=began)


async def summarize(
    opened: OpenedRun,
    enqueued: RunEnqueueReport,
    snapshot: Snapshot,
    ending: PoolExit,
    *,
    before: int,
    began: float,
) -> Summary:
    """Return how the work on a run ended that began at this monotonic time."""
    queue, job, run = opened.queue, opened.job, opened.run
    return Summary(
        run=run,
        job=job,
        enqueued=enqueued,
        before=before,
        snapshot=snapshot,
        ending=ending,
        seconds=time.monotonic() - began,
        compared=await compared(queue, run) if job.scraper.settings.again else None,
        findings=await read_findings(queue, run.id, snapshot.stats),
    )
