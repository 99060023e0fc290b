"""Hosts workers on one run: the one place that opens logs, metrics and checks of the store around a pool.

All that start workers do it with a `RunHost`: commands and scripts (`launch`), programs and the web server
(`BackgroundWorkers`), the worker role of a cluster, and the autoscaler. Only the kind of pool differs:
processes (`WorkerPool`), this event loop (`InlinePool`), or this process and its terminal (`DebugPool`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from shoal.core.errors import QueueError
from shoal.core.events import LOG, Level
from shoal.core.model import SECOND, Run
from shoal.core.redact import redactor
from shoal.core.tasks import exchange_last, restarted, watched
from shoal.core.values import counted
from shoal.fleet.dead_workers import release_leases_of
from shoal.fleet.job import Job
from shoal.fleet.left_to_others import LeftToOthers
from shoal.fleet.lock import ScraperLock
from shoal.fleet.run.judgement import judged
from shoal.fleet.run.lifecycle import end_at_budget
from shoal.fleet.run.open_run import lock_of
from shoal.fleet.run.pool import PoolExit, RunObserver, WorkerPool
from shoal.fleet.run.retention import apply_keep
from shoal.fleet.run.run_hooks import RunHooks
from shoal.fleet.status.progress import ProgressReader, Snapshot, follow_progress
from shoal.fleet.telemetry.logs import NO_LOGS, LogDirectory
from shoal.fleet.telemetry.metrics import PoolMetrics
from shoal.fleet.telemetry.setup import logs_of, metrics_of
from shoal.queue.contract import Queue, QueueReports
from shoal.scrape.scraper import HTTP_ONLY
from shoal.worker.fetchers.chain import sandbox_notice

FINISH_TIMEOUT = timedelta(seconds=30)  # for running tasks to finish; then they are released
LAST_READ_TIMEOUT = 5 * SECOND

MakePool = Callable[..., WorkerPool]


class RunHost:
    """Runs the workers of a job on a run inside its context; `run` returns how they ended.

    It holds the job's lock, or the given one, until they have ended. `metrics` are those of a host of several
    runs, which serves them; by default they are served at the job's address.
    """

    def __init__(
        self,
        queue: Queue,
        job: Job,
        run: Run,
        observer: RunObserver | None = None,
        *,
        lock: ScraperLock | None = None,
        make_pool: MakePool = WorkerPool,
        metrics: PoolMetrics | None = None,
    ) -> None:
        self.queue, self.job, self.run = queue, job, run
        self.observer, self.lock = observer or RunObserver(), lock or lock_of(queue, job, run.id)
        self.progress = ProgressReader(queue, run.id, with_hosts=self.observer.shows_progress)
        self._make_pool, self._metrics = make_pool, metrics
        self._logs, self._opened, self._held = NO_LOGS, AsyncExitStack(), AsyncExitStack()
        self._pool: WorkerPool | None = None

    @property
    def pool(self) -> WorkerPool:
        """The workers; there are some once the context is entered."""
        assert self._pool is not None
        return self._pool

    async def __aenter__(self) -> Self:
        job, say = self.job, self.observer.on_message
        async with AsyncExitStack() as stack:
            self._logs = stack.enter_context(open_logs(job, self.run))
            await self._held.enter_async_context(self.lock)
            stack.push_async_exit(self._held)
            with suppress(QueueError):  # the leases expire
                await release_leases_of(self.queue, self.run)
            await stack.enter_async_context(checked_store(self.queue, self.warn))
            if job.scraper.fetchers - HTTP_ONLY and (notice := sandbox_notice(job.scraper.fetchers)):
                self.warn(notice)
            self._pool = self.open_pool()
            if self._metrics is None:
                # A port that is in use is refused before anything is queued.
                self._metrics = await stack.enter_async_context(metrics_of(job.metrics, self._pool, say))
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._opened.aclose()

    def open_pool(self, **options: object) -> WorkerPool:
        """Return a pool of this host; `options` are those of the pool."""
        job, run = self.job, self.run
        pool = self._make_pool(
            self.queue, job, run, lock=self.lock, observer=self.observer, logs=self._logs, **options
        )
        scraper = job.scraper.for_run_hooks
        if scraper.hooks.of_run:
            redact = redactor(job.secrets)
            pool.hooks = RunHooks(self.queue, run.id, scraper, self.observer.on_message, redact)
        return pool

    def warn(self, text: str) -> None:
        """Say a warning, and write it to the fleet's log."""
        self.observer.on_problem(text)
        self._logs.fleet.log(Level.WARNING, LOG, message=text)

    async def work(self) -> PoolExit:
        """Run the workers until the run is drained or stopped; then delete what is older than `keep`."""
        self.observer.on_start(self.run, self.pool)
        try:
            async with self._followed():
                with time_limit(self.job.span, self.pool, self.observer.on_message) as limit:
                    ending = await self.pool.run()
            await end_at_budget(self.queue, self.run, self.job.scraper)
            if self.pool.stops < 2 or limit.is_reached:  # else it is to end at once
                await judged(
                    self.queue,
                    self.run.id,
                    self.job.scraper,
                    self.observer.on_message,
                    failure=ending.failures[0] if ending.failed else "",
                    timed_out=limit.is_reached,
                )
            if not self.pool.stops:
                await apply_keep(self.queue, self.job.scraper, self.run, self.observer.on_message)
            return ending
        finally:
            await self._held.aclose()

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        """Read the progress of the run inside the block: to show it, and to end if only others can go on."""
        job, say, progress = self.job, self.observer.on_message, self.progress
        others = LeftToOthers(self.queue, job, say=say, stop=self.pool.stop)
        is_watched = self.observer.shows_progress or job.metrics is not None

        async def follow() -> None:
            await follow_progress(
                progress,
                self._report,
                is_at_work=lambda: bool(self.pool.pids),
                check=None if job.listening else others.check,  # those that listen claim nothing
                is_needed=lambda: is_watched or not self.pool.in_hand,
            )

        following = watched(asyncio.create_task(restarted("Reading the run's progress", follow, say)))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            if job.metrics:
                # The last look may have been before the end.
                await exchange_last(self._read_last, LAST_READ_TIMEOUT)

    async def _read_last(self) -> None:
        if self._metrics:
            self._metrics.update(await self.progress.read())

    def _report(self, snapshot: Snapshot) -> None:
        if self._metrics:
            self._metrics.update(snapshot)
        self.observer.on_progress(snapshot, self.pool)


def open_logs(job: Job, run: Run) -> AbstractContextManager[LogDirectory]:
    """Open the logs of a job's work on a run; the job's secrets are redacted in them."""
    return logs_of(job.logs, run, job.secrets)


@dataclass(slots=True)
class TimeLimit:
    """Whether workers were stopped because their time was over."""

    is_reached: bool = False


@contextmanager
def time_limit(span: timedelta | None, pool: WorkerPool, say: Callable[[str], None]) -> Iterator[TimeLimit]:
    """Stop the workers after this time, unless they were told to stop before: they finish running tasks."""
    loop, timers, limit = asyncio.get_running_loop(), list[asyncio.TimerHandle](), TimeLimit()

    def stop_gracefully() -> None:
        if pool.stops == 0:
            limit.is_reached = True
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
        yield limit
    finally:
        for timer in timers:
            timer.cancel()


@asynccontextmanager
async def checked_store(queue: QueueReports, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Warn now if the store may delete data, and at the end if it has done so inside the block."""
    before = await queue.evictions()
    if before:
        say(f"This run may lose tasks and results without an error. {before.text}")
    try:
        yield
    finally:
        with suppress(QueueError):
            after = await queue.evictions()
            lost = after.count - (before.count if before else 0) if after else 0
            if after and lost > 0:
                say(
                    f"{counted(lost, 'key')} of the queue's server {'was' if lost == 1 else 'were'} evicted "
                    "during this run. Its counts and results may be incomplete: compare them with your source"
                )
