"""The two roles of a cluster: a coordinator runs one run to its end, worker hosts serve run after run."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, QueueUnavailable, RunConflict, ScraperBusy
from shoal.core.model import Run, RunState, WorkerState
from shoal.core.tasks import repeat, wait_for_event
from shoal.fleet import lock as single
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.job import Job
from shoal.fleet.run.host import RunHost, open_logs
from shoal.fleet.run.launch import Summary, summarize
from shoal.fleet.run.lifecycle import end_at_budget
from shoal.fleet.run.open_run import OpenedRun, lock_of
from shoal.fleet.run.pool import PoolExit, RunObserver, WorkerPool
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.run.settings import use_settings
from shoal.fleet.status.find import find_run, is_standing
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.fleet.telemetry.metrics import PoolMetrics
from shoal.fleet.telemetry.setup import metrics_of
from shoal.queue.contract import Queue, QueueReports
from shoal.worker.background import run_beside
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.process.heartbeat import HEARTBEAT_INTERVAL

POLL_INTERVAL_SECONDS = 1.0
DELAY_AFTER_FAILURE = 30.0  # seconds
MAX_RUNS_CHECKED = 20  # runs of a scraper, the newest first
ROLE = "coordinator"


class RoleObserver:
    """Receives the progress and messages of the runs of a cluster; these methods ignore them."""

    def on_join(self, run: Run) -> None:
        """Handle a run that is worked on, or waited for, from now on."""

    def on_progress(self, snapshot: Snapshot) -> None:
        """Handle the counts of a run, which are read again and again."""

    def on_message(self, text: str) -> None:
        """Handle an event that the user should know of."""


SILENT = RoleObserver()


def enqueue_lock(queue: Queue, scraper: str, run_id: str | None = None) -> single.ScraperLock:
    """Return the lock that a coordinator holds."""
    return single.ScraperLock(queue, scraper, [single.FILLING], run_id=run_id)


async def find_interrupted(queue: QueueReports, scraper: str) -> Run | None:
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

    opened: OpenedRun
    observer: RoleObserver = SILENT
    results: str | None = None
    _state: str = field(default=WorkerState.FILLING, init=False)

    async def carry_out(self) -> Summary:
        """Return how the run ended; it can be cancelled at any time, and started again to resume."""
        began, me = time.monotonic(), new_worker_id()
        queue, job, run = self.opened.queue, self.opened.job, self.opened.run
        async with AsyncExitStack() as stack:
            stack.enter_context(open_logs(job, run))
            lock = self.opened.lock or enqueue_lock(queue, run.scraper, run.id)
            await stack.enter_async_context(lock)
            writer = await stack.enter_async_context(ResultWriter(queue, run.id, self.results))
            before = (await queue.stats(run.id)).completed
            self.observer.on_join(run)
            # At once, so that the next coordinator finds the run whatever happens.
            await self._send_heartbeat(me, WorkerState.FILLING)
            await stack.enter_async_context(run_beside("The coordinator's heartbeat", self._keep_beating(me)))
            enqueued = await self.opened.enqueue()
            await self._send_heartbeat(me, WorkerState.WAITING)
            snapshot = await self._wait()
            await writer.finish(snapshot.stats.items)
        await self._send_heartbeat(me, WorkerState.FINISHED)
        return await summarize(self.opened, enqueued, snapshot, PoolExit(), before=before, began=began)

    async def _wait(self) -> Snapshot:
        queue, run = self.opened.queue, self.opened.run
        progress = ProgressReader(queue, run.id)
        while True:
            with suppress(QueueUnavailable):
                # The workers may be gone when the last page is done.
                await end_at_budget(queue, run, self.opened.job.scraper)
                snapshot = await progress.read()
                self.observer.on_progress(snapshot)
                if self._is_over(snapshot):
                    return await progress.read(last=True)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def _is_over(self, snapshot: Snapshot) -> bool:
        return snapshot.is_over or not snapshot.stats.tasks

    async def _send_heartbeat(self, me: str, state: str) -> None:
        self._state = state
        queue, run = self.opened.queue, self.opened.run
        await queue.beat(me, run_id=run.id, state=state, info={"role": ROLE})

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
            ending = await self._host(job, await self._queue.run(run.id), lock)
        endings[run.id] = _combine(endings.get(run.id), ending)
        if ExitReason.BUDGET in ending.reasons:
            self._finished.add(run.id)
        for failure in ending.failures:
            self._observer.on_message(f"Could not work on run {run.id}: {failure}")
        return ending

    async def _host(self, job: Job, run: Run, lock: single.ScraperLock) -> PoolExit:
        observer = _HostObserver(self._observer, self._on_output)
        async with RunHost(self._queue, job, run, observer, lock=lock, metrics=self._metrics) as host:
            self._pools.add(host.pool)
            for _ in range(self._stops):  # stop calls that came while it was opened
                host.pool.stop()
            try:
                return await host.work()
            finally:
                self._pools.discard(host.pool)
                self._past += host.pool.tally
                self._past_restarts += host.pool.restarts


class _HostObserver(RunObserver):
    """Passes what happens to the workers on one run to the observer of all runs."""

    def __init__(self, observer: RoleObserver, on_output: Callable[[str], None]) -> None:
        self._observer, self._on_output = observer, on_output

    def on_start(self, run: Run, pool: WorkerPool) -> None:
        self._observer.on_join(run)

    def on_message(self, text: str) -> None:
        self._observer.on_message(text)

    def on_output(self, line: str) -> None:
        self._on_output(line)


def _combine(before: PoolExit | None, ending: PoolExit) -> PoolExit:
    """Combine the exits of two pools of one run: a run may be drained more than once."""
    if before is None:
        return ending
    failures = [*before.failures, *ending.failures]
    return PoolExit([*before.reasons, *ending.reasons], failures, before.tally + ending.tally)
