"""Runs a scraper on this machine: creates or resumes the run, enqueues, works, and reports."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from shoal.core.errors import ExportFailed, InvalidSetting, InvalidTask, RunConflict
from shoal.core.errors.commands import shoal_command
from shoal.core.events import LOG, Level
from shoal.core.model import EnqueueReport, Run, Task
from shoal.core.tasks import restarted, watched
from shoal.core.values import counted
from shoal.discover.source import Refusal
from shoal.fleet.dead_workers import release_leases_of
from shoal.fleet.job import Job
from shoal.fleet.lock import FILLING, WORKING, ScraperLock
from shoal.fleet.other_steps import OtherSteps, left_to_others
from shoal.fleet.run.lifecycle import end_at_budget, reopen
from shoal.fleet.run.pool import PoolExit, WorkerPool
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.run.retention import apply_keep
from shoal.fleet.sources.recrawl import Comparison, compared
from shoal.fleet.status.find import deletion_named, find_run, is_standing
from shoal.fleet.status.findings import RunFindings, read_findings
from shoal.fleet.status.progress import (
    ProgressReader,
    Snapshot,
    follow_progress,
    hooks_as_json,
    links_as_json,
)
from shoal.fleet.store_checks import checked_store
from shoal.fleet.telemetry.logs import NO_LOGS, LogDirectory
from shoal.fleet.telemetry.metrics import PoolMetrics
from shoal.fleet.telemetry.setup import logs_of, metrics_of
from shoal.fleet.telemetry.worker_log import Warned
from shoal.queue.contract import Queue, QueueReports, Tasks
from shoal.scrape.scraper import HTTP_ONLY, Scraper
from shoal.worker.fetchers.browser import sandbox_notice
from shoal.worker.secrets import all_secrets

FINISH_TIMEOUT = timedelta(seconds=30)  # for running tasks to finish; then they are released


class StoppablePool(Protocol):
    """A worker pool that can be stopped."""

    @property
    def in_hand(self) -> int: ...
    @property
    def stops(self) -> int: ...
    def stop(self) -> int: ...


@contextmanager
def time_limit(span: timedelta | None, pool: StoppablePool, say: Callable[[str], None]) -> Iterator[None]:
    """Stop the workers after this time, unless they were told to stop before: they finish running tasks."""
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

    def stop_gracefully() -> None:
        if pool.stops == 0:
            say(f"Time limit reached: finishing {counted(pool.in_hand, 'task')}.")
            pool.stop()
            timers.append(loop.call_later(FINISH_TIMEOUT.total_seconds(), release_tasks))

    def release_tasks() -> None:
        if pool.stops == 1:
            say(f"Returning {counted(pool.in_hand, 'task')} to the queue.")
            pool.stop()

    if span is not None:
        timers.append(loop.call_later(span.total_seconds(), stop_gracefully))
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


class RunObserver(Protocol):
    """Receives the progress and messages of a run."""

    def on_start(self, run: Run, pool: WorkerPool) -> None: ...
    def on_progress(self, snapshot: Snapshot, pool: WorkerPool) -> None: ...
    def on_message(self, text: str) -> None: ...
    def on_output(self, line: str) -> None: ...
    def on_warning(self, warned: Warned) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a run ended, or how far it got."""

    run: Run
    enqueued: EnqueueReport
    before: int  # pages that were completed at the start
    snapshot: Snapshot
    ending: PoolExit
    seconds: float
    refused: int = 0  # seeds that could not be queued
    first_refused: Sequence[Refusal] = ()
    compared: Comparison | None = None  # with the run that is recrawled
    findings: RunFindings = field(default_factory=RunFindings)
    job: Job | None = None  # with the settings of the run

    @property
    def queued_nothing(self) -> bool:
        """Whether there was nothing to do because no seed could be queued, or none of the sources read."""
        return bool(self.refused) and not self.snapshot.stats.tasks and not self.enqueued.known

    @property
    def left_to_other_steps(self) -> dict[str, int]:
        """The tasks left by step, if its workers run none of them because of `--steps`; otherwise empty."""
        return left_to_others(self.snapshot.stats, self.job.steps if self.job else None)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal run --json` promises."""
        stats = self.snapshot.stats
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
            "not_followed": links_as_json(self.snapshot.not_followed),
            "missing": self.snapshot.missing.as_json(),
            "files": self.snapshot.files.as_json(),
            "hooks": hooks_as_json(self.snapshot.hooks),
            "failures": list(dict.fromkeys(self.ending.failures)),
            "lost_counts": self.snapshot.lost_counts,
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(max(stats.completed - self.before, 0) / self.seconds, 2)
            if self.seconds
            else 0.0,
            "remaining": stats.remaining,
            "left_to_other_steps": self.left_to_other_steps,
            "invalid": self.refused,
            "refused": [one.as_json() for one in self.first_refused],
            "known": self.enqueued.known,
            **self.findings.as_json(),
            **(self.compared.as_json() if self.compared else {}),
        }


async def open_run(queue: Queue, scraper: Scraper, *, run_id: str | None = None, resume: bool = False) -> Run:
    """Create a run of the scraper, or find the one to resume; raises RunConflict if it cannot be resumed."""
    if not resume:
        run = await queue.start_run(scraper.name, settings=scraper.run_settings(), run_id=run_id)
        return await reopen(queue, run, scraper)
    if run_id:
        run = await find_run(queue, run_id, scraper=scraper.name)
        if run.scraper != scraper.name:
            raise RunConflict.of_another(run_id, run.scraper, scraper.name)
        return await reopen(queue, run, scraper)
    return await find_unfinished(queue, scraper.name)


async def find_unfinished(queue: QueueReports, scraper: str) -> Run:
    """Return the newest run of a scraper that has tasks left and has not ended; raises InvalidSetting."""
    finished = ""
    for run in await queue.runs():
        is_open = run.scraper == scraper and not run.state.has_ended and not is_standing(run)
        if is_open and (await queue.stats(run.id)).remaining:
            return run
        finished = finished or (run.id if is_open else "")
    # A launcher that is killed when the last page is done may have written only some of the items.
    hint = f" {finished} has no task left; to write its items again: --resume {finished}." if finished else ""
    raise InvalidSetting(
        "--resume",
        f"found no unfinished run of {scraper!r} in this queue.{hint} "
        f"List them with: {shoal_command('runs')}",
    )


def lock_of(queue: Queue, job: Job, run_id: str | None = None) -> ScraperLock:
    """Return the lock that the workers of a job hold.

    A scraper in single mode runs once at a time. Others may join its run, unless that mode was set by name.
    """
    settings = job.scraper.settings
    is_strict = settings.mode_given or not job.joins
    duties = (
        () if settings.mode != "single" or not is_strict else (WORKING,) if job.joins else (FILLING, WORKING)
    )
    return ScraperLock(queue, job.scraper.name, duties, run_id=run_id)


def open_logs(job: Job, run: Run) -> AbstractContextManager[LogDirectory]:
    """Open the logs of a job's work on a run; the job's secrets are redacted in them."""
    return logs_of(job.logs, run, all_secrets(job.queue_url, job.scraper.settings, os.environ))


def warn_in(logs: LogDirectory, say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that says a warning and writes it to the fleet's log."""

    def warn(text: str) -> None:
        say(text)
        logs.fleet.log(Level.WARNING, LOG, message=text)

    return warn


def open_pool(
    queue: Queue,
    job: Job,
    run: Run,
    logs: LogDirectory = NO_LOGS,
    *,
    lock: ScraperLock | None = None,
    on_event: Callable[[str], None] = lambda text: None,
    on_output: Callable[[str], None] = lambda line: None,
    on_warning: Callable[[Warned], None] | None = None,
    make_pool: Callable[..., WorkerPool] = WorkerPool,
) -> WorkerPool:
    """Return the worker pool of a job for a run; it holds the job's lock, or the given one."""
    if job.scraper.fetchers - HTTP_ONLY:
        notice = sandbox_notice(job.scraper.fetchers)
        if notice:
            warn_in(logs, on_event)(notice)
    return make_pool(
        queue,
        job.worker_config(run),
        job.workers,
        limits=job.limits(),
        lock=lock or lock_of(queue, job, run.id),
        fork_server=job.fork_server,
        on_event=on_event,
        on_output=on_output,
        on_warning=on_warning,
        logs=logs,
        stagger=job.stagger,
    )


async def launch(
    queue: Queue,
    job: Job,
    run: Run,
    observer: RunObserver,
    *,
    seeds: Tasks = (),
    on_invalid: Callable[[int, InvalidTask], None] | None = None,
    on_pool: Callable[[WorkerPool], None] = lambda pool: None,
    results: ResultWriter | None = None,
    known: Iterable[Task] = (),
    lock: ScraperLock | None = None,
    make_pool: Callable[..., WorkerPool] = WorkerPool,
) -> Summary:
    """Enqueue the seeds and known tasks, work until the run is drained or stopped, and return a summary."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        stack.enter_context(deletion_named(run.id))
        logs = stack.enter_context(open_logs(job, run))
        lock = await stack.enter_async_context(lock or lock_of(queue, job, run.id))
        await release_leases_of(queue, run)
        before = (await queue.stats(run.id)).completed
        await stack.enter_async_context(checked_store(queue, warn_in(logs, observer.on_message)))
        pool = open_pool(
            queue,
            job,
            run,
            logs,
            lock=lock,
            on_event=observer.on_message,
            on_output=observer.on_output,
            on_warning=observer.on_warning,
            make_pool=make_pool,
        )
        # A port that is in use is refused before anything is queued.
        metrics = await stack.enter_async_context(metrics_of(job.metrics, pool, observer.on_message))
        await stack.enter_async_context(pool.started_ahead())
        enqueued = await queue.enqueue(run.id, seeds, on_invalid=on_invalid)
        enqueued += await queue.enqueue(run.id, known)
        results = await stack.enter_async_context(results or ResultWriter(queue, run.id, None))
        results.when_lost(pool.stop)
        on_pool(pool)
        observer.on_start(run, pool)
        progress = ProgressReader(queue, run.id)
        others = OtherSteps(queue, job, say=observer.on_message, stop=pool.stop) if job.steps else None
        poll = partial(_poll, progress, pool, observer, metrics, others)
        duty = restarted("Reading the run's progress", poll, observer.on_message)
        polling = watched(asyncio.create_task(duty))
        try:
            with time_limit(job.span, pool, observer.on_message):
                ending = await pool.run()
        finally:
            polling.cancel()
            await asyncio.wait([polling])
        await end_at_budget(queue, run, job.scraper)
        snapshot = await progress.read(last=True)
        try:
            await results.finish(snapshot.stats.items)
        except ExportFailed as error:
            raise results.with_command(error, job.queue_url) from error
        if not pool.stops and job.scraper.settings.keep:
            await apply_keep(queue, job.scraper, run, observer.on_message)
    return Summary(
        run=run,
        enqueued=enqueued,
        before=before,
        snapshot=snapshot,
        ending=ending,
        seconds=time.monotonic() - began,
        compared=await compared(queue, run) if job.scraper.settings.again else None,
        findings=await read_findings(queue, run.id, snapshot.stats),
        job=job,
    )


async def _poll(
    progress: ProgressReader,
    pool: WorkerPool,
    observer: RunObserver,
    metrics: PoolMetrics,
    others: OtherSteps | None,
) -> None:
    def report(snapshot: Snapshot) -> None:
        metrics.update(snapshot)
        observer.on_progress(snapshot, pool)

    check = others.check if others else None
    await follow_progress(progress, report, is_at_work=lambda: bool(pool.pids), check=check)
