"""The two roles of a cluster: a coordinator runs one run to its end, worker hosts serve run after run."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, QueueError, QueueUnavailable, RunConflict, ScraperBusy
from shoal.core.model import Run, RunState, WorkerState
from shoal.core.tasks import repeat, restarted, wait_for_event, watched
from shoal.fleet import lock as single
from shoal.fleet.dead_workers import new_worker_id, release_leases_of
from shoal.fleet.job import Job
from shoal.fleet.other_steps import OtherSteps
from shoal.fleet.run.enqueue import RunEnqueuer
from shoal.fleet.run.launch import Summary, lock_of, open_logs, open_pool, warn_in
from shoal.fleet.run.lifecycle import end_at_budget
from shoal.fleet.run.pool import PoolExit, WorkerPool
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.run.retention import apply_keep
from shoal.fleet.run.settings import OpenedRun, open_job, use_settings
from shoal.fleet.status.find import find_run, is_standing
from shoal.fleet.status.findings import read_findings
from shoal.fleet.status.progress import ProgressReader, Snapshot, follow_progress
from shoal.fleet.store_checks import checked_store
from shoal.fleet.telemetry.metrics import PoolMetrics
from shoal.fleet.telemetry.setup import metrics_of, update_metrics
from shoal.queue.contract import Queue, QueueReports, WorkQueue
from shoal.worker.background import run_beside
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.process.heartbeat import HEARTBEAT_INTERVAL

POLL_INTERVAL_SECONDS = 1.0
DELAY_AFTER_FAILURE = 30.0  # seconds
MAX_RUNS_CHECKED = 20  # runs of a scraper, the newest first
ROLE = "coordinator"


class RoleObserver(Protocol):
    """Receives the progress and messages of the runs of a cluster."""

    def on_join(self, run: Run) -> None: ...
    def on_progress(self, snapshot: Snapshot) -> None: ...
    def on_message(self, text: str) -> None: ...


class SilentObserver:
    """An observer that ignores everything."""

    def on_join(self, run: Run) -> None:
        """Ignore it."""

    def on_progress(self, snapshot: Snapshot) -> None:
        """Ignore it."""

    def on_message(self, text: str) -> None:
        """Ignore it."""


SILENT = SilentObserver()


def enqueue_lock(queue: Queue, scraper: str, run_id: str | None = None) -> single.ScraperLock:
    """Return the lock that a coordinator holds."""
    return single.ScraperLock(queue, scraper, [single.FILLING], run_id=run_id)


async def run_to_coordinate(queue: Queue, job: Job, *, run_id: str | None, resume: bool) -> OpenedRun:
    """Return the run to coordinate: the named one, the interrupted one, or a new one."""
    if resume and not run_id and (run := await _find_interrupted(queue, job.scraper.name)):
        job, notice = await use_settings(queue, job, run)
        return OpenedRun(run, job, False, notice)
    return await _mark_as_coordinated(queue, await open_job(queue, job, run_id=run_id))


async def _mark_as_coordinated(queue: WorkQueue, opened: OpenedRun) -> OpenedRun:
    """Mark a run as a coordinator's at once, so that the next coordinator finds it whatever happens."""
    await queue.beat(new_worker_id(), run_id=opened.run.id, state=WorkerState.ENDED, info={"role": ROLE})
    return opened


async def _find_interrupted(queue: QueueReports, scraper: str) -> Run | None:
    """Return the newest run of a scraper that a coordinator has started, if it was interrupted.

    Other runs of the scraper are ignored: they are enqueued or worked on by hand. A coordinator may die while
    it enqueues, and workers drain what is there: such a run looks finished.
    """
    states: dict[str, set[str]] = {}
    for worker in await queue.workers():
        if worker.info.get("role") == ROLE:
            states.setdefault(worker.run_id, set()).add(worker.state)
    coordinated = (run for run in await queue.runs() if run.scraper == scraper and run.id in states)
    run = next(coordinated, None)
    if run is None or run.state.has_ended:
        return None
    has_work_left = WorkerState.FINISHED not in states[run.id] or (await queue.stats(run.id)).remaining
    return run if has_work_left else None


@dataclass(slots=True)
class Coordinator:
    """Enqueues one run, waits until workers have drained it, and writes its items."""

    queue: Queue
    job: Job
    run: Run
    observer: RoleObserver
    results: str | None = None
    lock: single.ScraperLock | None = None  # the enqueue lock, held by the creator of the run
    _state: str = field(default=WorkerState.FILLING, init=False)

    async def carry_out(self, feed: RunEnqueuer) -> Summary:
        """Return how the run ended; it can be cancelled at any time, and started again to resume."""
        began, me = time.monotonic(), new_worker_id()
        async with AsyncExitStack() as stack:
            stack.enter_context(open_logs(self.job, self.run))
            lock = self.lock or enqueue_lock(self.queue, self.run.scraper, self.run.id)
            await stack.enter_async_context(lock)
            writer = await stack.enter_async_context(ResultWriter(self.queue, self.run.id, self.results))
            before = (await self.queue.stats(self.run.id)).completed
            self.observer.on_join(self.run)
            await self._send_heartbeat(me, WorkerState.FILLING)
            await stack.enter_async_context(run_beside("The coordinator's heartbeat", self._keep_beating(me)))
            enqueued = await self.queue.enqueue(self.run.id, feed, on_invalid=feed.invalid)
            await self._send_heartbeat(me, WorkerState.WAITING)
            snapshot = await self._wait()
            await writer.finish(snapshot.stats.items)
        await self._send_heartbeat(me, WorkerState.FINISHED)
        return Summary(
            run=self.run,
            enqueued=enqueued,
            before=before,
            snapshot=snapshot,
            ending=PoolExit(),
            seconds=time.monotonic() - began,
            refused=feed.refused,
            findings=await read_findings(self.queue, self.run.id, snapshot.stats),
            job=self.job,
        )

    async def _wait(self) -> Snapshot:
        progress = ProgressReader(self.queue, self.run.id)
        while True:
            with suppress(QueueUnavailable):
                # The workers may be gone when the last page is done.
                await end_at_budget(self.queue, self.run, self.job.scraper)
                snapshot = await progress.read()
                self.observer.on_progress(snapshot)
                if self._is_over(snapshot):
                    return await progress.read(last=True)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def _is_over(self, snapshot: Snapshot) -> bool:
        return snapshot.is_over or not snapshot.stats.tasks

    async def _send_heartbeat(self, me: str, state: str) -> None:
        self._state = state
        await self.queue.beat(me, run_id=self.run.id, state=state, info={"role": ROLE})

    async def _keep_beating(self, me: str) -> None:
        """Send a heartbeat with the current state periodically."""
        await repeat(lambda: self._send_heartbeat(me, self._state), HEARTBEAT_INTERVAL, jitter=0)


class WorkerHost:
    """Runs a worker pool on the newest run of each scraper, and waits for the next ones.

    With `runs` it serves only those, and ends when they are drained.
    """

    def __init__(
        self,
        queue: Queue,
        jobs: Sequence[Job],
        observer: RoleObserver = SILENT,
        *,
        runs: Sequence[str] = (),
        on_output: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._queue, self._observer = queue, observer
        self._jobs = [replace(job, joins=True) for job in jobs]
        self._runs, self._on_output = runs, on_output
        self._pools: set[WorkerPool] = set()
        self._past, self._past_restarts = WorkerCounters(), 0  # of worker pools that have ended
        self._metrics = PoolMetrics(self)
        self._finished: set[str] = set()  # runs that have reached their page limit
        self._busy = dict[str, str]()  # scrapers in single mode that another process works on, with its id
        self._stops = 0
        self._stopping = asyncio.Event()

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(pool.in_hand for pool in self._pools)

    @property
    def tally(self) -> WorkerCounters:
        """What all workers have done so far."""
        return sum((pool.tally for pool in self._pools), self._past)

    @property
    def restarts(self) -> int:
        """How many workers were started to replace dead ones."""
        return sum((pool.restarts for pool in self._pools), self._past_restarts)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [pid for pool in self._pools for pid in pool.pids]

    @property
    def frozen_pids(self) -> list[int]:
        """Process ids of the workers that do not respond."""
        return [pid for pool in self._pools for pid in pool.frozen_pids]

    def stop(self) -> int:
        """Finish running tasks; the second call releases them, the third kills. Return the call count."""
        self._stops += 1
        self._stopping.set()
        for pool in self._pools:
            pool.stop()
        return self._stops

    async def serve(self) -> dict[str, PoolExit]:
        """Work until stopped, or until the named runs are drained; return how each run's pool ended."""
        endings: dict[str, PoolExit] = {}
        # One address for the whole host: its jobs belong to one launcher, which was given one.
        address = next((job.metrics for job in self._jobs if job.metrics), None)
        async with metrics_of(address, self, self._observer.on_message) as self._metrics:
            if self._runs:
                pairs = [await self._find_job(run_id) for run_id in self._runs]
                await asyncio.gather(*(self._work_on(job, run, endings) for job, run in pairs))
            else:
                await asyncio.gather(*(self._serve_scraper(job, endings) for job in self._jobs))
        return endings

    async def _find_job(self, run_id: str) -> tuple[Job, Run]:
        run = await find_run(self._queue, run_id)
        for job in self._jobs:
            if job.scraper.name == run.scraper:
                return job, run
        known = ", ".join(sorted(job.scraper.name for job in self._jobs))
        advice = f"Name it: {shoal_command(f'start {run.scraper} --role worker --run {run_id}')}"
        raise RunConflict(run_id, f"belongs to scraper {run.scraper!r}; this host serves {known}. {advice}")

    async def _serve_scraper(self, job: Job, endings: dict[str, PoolExit]) -> None:
        """Serve the runs of one scraper, one after the other."""
        while not self._stops:
            run = await self._next_run(job)
            delay = await self._work_and_get_delay(job, run, endings) if run else POLL_INTERVAL_SECONDS
            await wait_for_event(self._stopping, delay)

    async def _work_and_get_delay(self, job: Job, run: Run, endings: dict[str, PoolExit]) -> float:
        """Work on a run, and return the delay in seconds before the next one."""
        name = job.scraper.name
        try:
            ending = await self._work_on(job, run, endings)
        except ScraperBusy as error:
            if self._busy.get(name) != error.holder:
                self._busy[name] = error.holder
                self._observer.on_message(str(error))
            return POLL_INTERVAL_SECONDS
        except (InvalidSetting, RunConflict) as error:
            self._observer.on_message(f"Could not work on run {run.id}: {error}")
            return DELAY_AFTER_FAILURE
        self._busy.pop(name, None)
        return DELAY_AFTER_FAILURE if ending.failed else 0.0

    async def _next_run(self, job: Job) -> Run | None:
        """Return the newest run of a scraper that has work left."""
        try:
            name = job.scraper.name
            runs = [run for run in await self._queue.runs() if run.scraper == name and not is_standing(run)]
            for run in runs[:MAX_RUNS_CHECKED]:
                is_open = run.state is RunState.RUNNING and run.id not in self._finished
                if is_open and (await self._queue.stats(run.id)).remaining:
                    return run
        except QueueUnavailable as error:
            self._observer.on_message(str(error))
        return None

    async def _work_on(self, job: Job, run: Run, endings: dict[str, PoolExit]) -> PoolExit:
        job, notice = await use_settings(self._queue, job, run)
        async with lock_of(self._queue, job, run.id) as lock:
            if notice:
                self._observer.on_message(f"Run {run.id}: {notice}")
            ending = await self._launch_pool(job, await self._queue.run(run.id), lock)
        endings[run.id] = _combine(endings.get(run.id), ending)
        if ExitReason.BUDGET in ending.reasons:
            self._finished.add(run.id)
        for failure in ending.failures:
            self._observer.on_message(f"Could not work on run {run.id}: {failure}")
        if not self._stops:
            await apply_keep(self._queue, job.scraper, run, self._observer.on_message)
        return ending

    async def _launch_pool(self, job: Job, run: Run, lock: single.ScraperLock) -> PoolExit:
        with suppress(QueueError):
            await release_leases_of(self._queue, run)
        with open_logs(job, run) as logs:
            pool = open_pool(
                self._queue,
                job,
                run,
                logs,
                lock=lock,
                on_event=self._observer.on_message,
                on_output=self._on_output,
            )
            async with checked_store(self._queue, warn_in(logs, self._observer.on_message)):
                return await self._run_pool(pool, job, run)

    async def _run_pool(self, pool: WorkerPool, job: Job, run: Run) -> PoolExit:
        """Run a pool on a run, and return how it ended."""
        self._pools.add(pool)
        for _ in range(self._stops):  # stop calls that came while it was created
            pool.stop()
        self._observer.on_join(run)
        try:
            async with AsyncExitStack() as stack:
                if job.metrics:
                    await stack.enter_async_context(update_metrics(self._metrics, self._queue, run))
                if job.steps:
                    await stack.enter_async_context(self._report_other_steps(pool, job, run))
                return await pool.run()
        finally:
            self._pools.discard(pool)
            self._past += pool.tally
            self._past_restarts += pool.restarts

    @asynccontextmanager
    async def _report_other_steps(self, pool: WorkerPool, job: Job, run: Run) -> AsyncIterator[None]:
        """Say inside the block when only tasks of steps are left that these workers do not run."""
        say = self._observer.on_message
        others = OtherSteps(self._queue, job, say=say, stop=pool.stop)
        progress = ProgressReader(self._queue, run.id, with_hosts=False)

        async def follow() -> None:
            await follow_progress(
                progress, lambda snapshot: None, is_at_work=lambda: bool(pool.pids), check=others.check
            )

        following = watched(asyncio.create_task(restarted("Reading the run's progress", follow, say)))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])


def _combine(before: PoolExit | None, ending: PoolExit) -> PoolExit:
    """Combine the exits of two pools of one run: a run may be drained more than once."""
    if before is None:
        return ending
    failures = [*before.failures, *ending.failures]
    return PoolExit([*before.reasons, *ending.reasons], failures, before.tally + ending.tally)
