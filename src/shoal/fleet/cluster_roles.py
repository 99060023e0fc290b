"""The two roles of a cluster: a coordinator runs one run to its end, worker hosts serve run after run."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, chdir, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidSetting, QueueUnavailable, RunConflict, ScraperBusy
from shoal.core.events import read_level
from shoal.core.model import Run, RunState, Stats, WorkerState
from shoal.core.tasks import repeat, wait_for_event
from shoal.core.values import hint, read_choice, read_positive_duration
from shoal.fleet.app import App
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.job import Job
from shoal.fleet.left_to_others import LeftToOthers, left_to_others
from shoal.fleet.lock import FILLING, ScraperLock, take_places
from shoal.fleet.project.cluster import PLACEHOLDERS, fill_pattern
from shoal.fleet.project.config import DEFAULT_HEARTBEAT, Config
from shoal.fleet.project.file import FILES, Project, ProjectScraper
from shoal.fleet.project.scrapers import load
from shoal.fleet.run.feed import InvalidSeeds
from shoal.fleet.run.host import RunHost, open_logs
from shoal.fleet.run.judgement import judged
from shoal.fleet.run.launch import Summary, summarize
from shoal.fleet.run.lifecycle import end_at_budget
from shoal.fleet.run.open_run import OpenedRun, StartOptions, lock_of, open_run
from shoal.fleet.run.pool import PoolExit, RunObserver, WorkerPool
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.run.settings import use_settings
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.status.find import find_run, is_standing
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.fleet.telemetry.logs import LogFormat, LogPlan, read_log_target
from shoal.fleet.telemetry.metrics import PoolMetrics
from shoal.fleet.telemetry.setup import metrics_of, open_telemetry
from shoal.queue.address import one_address
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.requests import new_run_id
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
        """Handle an event, or a line of a step's output, that the user should know of."""


class MessageObserver(RoleObserver):
    """Passes messages on, and ignores progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def on_message(self, text: str) -> None:
        """Pass a message on."""
        self._say(text)


SILENT = RoleObserver()


def enqueue_lock(queue: Queue, scraper: str, run_id: str | None = None) -> ScraperLock:
    """Return the lock that a coordinator holds."""
    return ScraperLock(queue, scraper, [FILLING], run_id=run_id)


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


class Role(StrEnum):
    """Role of a machine in a cluster."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


def queue_of(project: Project, queue: str | None) -> str:
    """Return the queue's URL; raises InvalidInput or InvalidSetting if the project lacks it."""
    if project.file is None:
        raise InvalidInput(
            f"No shoal.toml in {Path.cwd()} or a parent folder. A cluster needs one: docs/how-to/cluster.md"
        )
    if not queue:
        raise _missing(project, "queue", 'queue = "postgresql://db/shoal"')
    return queue


def scrapers_of(project: Project, role: Role, names: Sequence[str] | None = None) -> list[ProjectScraper]:
    """Return the named scrapers, or those that the project file lists for this role."""
    if not project.scrapers:
        raise _missing(project, "scrapers", '[scrapers.books] and module = "books.py:books"')
    is_coordinator = role is Role.COORDINATOR
    plan = project.cluster.coordinator if is_coordinator else project.cluster.workers
    if listed := names or plan.scrapers:
        table = "coordinator" if is_coordinator else "workers"
        return _known(project, listed, "NAME" if names else f"{_file(project)}: {table}.scrapers")
    entries = [
        entry for entry in project.scrapers.values() if not is_coordinator or _has_seeds(project, entry)
    ]
    if not entries:
        first = next(iter(project.scrapers))
        raise _missing(
            project, f"scrapers.{first}.seeds", f'[scrapers.{first}.seeds] and url = ["https://…"]'
        )
    return entries


def _has_seeds(project: Project, entry: ProjectScraper) -> bool:
    """Return whether the project or the scraper itself declares seeds; not for one that cannot be loaded."""
    try:
        return bool(entry.seeds) or load(project, entry.name).scraper.has_seeds
    except InvalidInput:
        return False


def _known(project: Project, names: Sequence[str], key: str) -> list[ProjectScraper]:
    for name in names:
        if name not in project.scrapers:
            raise InvalidSetting(
                key, f"{name!r} is not a scraper of this project. {hint(name, project.scrapers)}"
            )
    return [project.scrapers[name] for name in names]


def _missing(project: Project, key: str, example: str) -> InvalidSetting:
    return InvalidSetting(f"{_file(project)}: {key}", f"is missing; add {example}")


def _file(project: Project) -> str:
    return project.file.name if project.file else "shoal.toml"


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
            writer = ResultWriter(queue, run.id, self.results)
            if whose := await writer.replaced():
                advice = "To keep a file of each run, add {run} to its name."
                self.observer.on_message(f"{self.results} {whose}, and is replaced. {advice}")
            await stack.enter_async_context(writer)
            before = (await queue.stats(run.id)).completed
            self.observer.on_join(run)
            # At once, so that the next coordinator finds the run whatever happens.
            await self._send_heartbeat(me, WorkerState.FILLING)
            await stack.enter_async_context(run_beside("The coordinator's heartbeat", self._keep_beating(me)))
            enqueued = await self.opened.enqueue(may_be_empty=True)
            await self._send_heartbeat(me, WorkerState.WAITING)
            snapshot = await self._wait()
            await writer.finish(snapshot.stats.items)
        await self._send_heartbeat(me, WorkerState.FINISHED)
        return await summarize(self.opened, enqueued, snapshot, PoolExit(), before=before, began=began)

    async def _wait(self) -> Snapshot:
        queue, run = self.opened.queue, self.opened.run
        progress, stopping = ProgressReader(queue, run.id), asyncio.Event()
        others = LeftToOthers(queue, self.opened.job, say=self.observer.on_message, stop=stopping.set)
        while True:
            with suppress(QueueUnavailable):
                # The workers may be gone when the last page is done.
                await end_at_budget(queue, run, self.opened.job.scraper)
                snapshot = await progress.read()
                self.observer.on_progress(snapshot)
                await others.check(snapshot)
                if stopping.is_set() or self._is_over(snapshot):
                    await judged(queue, run.id, self.opened.job.scraper, self.observer.on_message)
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


async def coordinate_scraper(
    queue: Queue,
    project: Project,
    entry: ProjectScraper,
    job: Job,
    run_id: str | None = None,
    observer: RoleObserver = SILENT,
) -> tuple[Summary, str | None]:
    """Coordinate a run of a scraper as the project file says; return how it ended and its output."""
    plan, seeds = project.cluster, declared_seeds(project, job)
    # Take the lock first: a start that the lock refuses must create no run.
    async with enqueue_lock(queue, job.scraper.name, run_id) as lock:
        if run_id is None and plan.coordinator.resume:
            interrupted = await find_interrupted(queue, job.scraper.name)
            run_id = interrupted.id if interrupted else None
        run_id = run_id or new_run_id(datetime.now(UTC))  # the names of files may contain it
        invalid = InvalidSeeds(
            say=observer.on_message, rejects=place_of(plan.coordinator.rejects, entry.name, run_id)
        )
        options = StartOptions(
            run_id=run_id, lock=lock, routes=project.routes, invalid=invalid, keeps_empty=True
        )
        async with open_run(queue, job, seeds, options) as opened:
            for notice in opened.notices:
                observer.on_message(f"Run {run_id}: {notice}")
            out = place_of(plan.storage.results, entry.name, run_id)
            return await Coordinator(opened, observer, out).carry_out(), out


def place_of(pattern: str | None, scraper: str, run_id: str) -> str | None:
    """Return the file or table for one run, with the folder of a file made."""
    if pattern is None:
        return None
    place = fill_pattern(pattern, scraper=scraper, run=run_id)
    if "://" not in place:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    return place


def check_places(project: Project, entries: Sequence[ProjectScraper]) -> None:
    """Raise InvalidSetting for one file for several runs, which would overwrite each other."""
    file, plan = project.file and project.file.name, project.cluster
    places = {"storage.results": plan.storage.results, "coordinator.rejects": plan.coordinator.rejects}
    for key, pattern in places.items():
        if pattern and len(entries) > 1 and not any(f"{{{name}}}" in pattern for name in PLACEHOLDERS):
            reason = "is one file for several scrapers; add {scraper} or {run} to its name"
            raise InvalidSetting(f"{file}: {key}", reason)


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
        count: int | None = None,  # the most workers of a scraper on all machines
    ) -> None:
        self._queue, self._observer = queue, observer
        self._jobs = [replace(job, joins=True) for job in jobs]
        self._runs, self._count = runs, count
        self._pools: set[WorkerPool] = set()
        self._past, self._past_restarts = WorkerCounters(), 0  # of worker pools that have ended
        self._metrics = PoolMetrics(self)
        self._finished: set[str] = set()  # runs that have reached their page limit, or that crash here
        self._left: set[str] = set()  # runs whose tasks are all of steps or partitions of others
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
        """Return the newest run of a scraper that has work left for its workers."""
        try:
            name = job.scraper.name
            runs = [run for run in await self._queue.runs() if run.scraper == name and not is_standing(run)]
            for run in runs[:MAX_RUNS_CHECKED]:
                is_open = run.state is RunState.RUNNING and run.id not in self._finished
                stats = await self._queue.stats(run.id) if is_open else Stats()
                if not stats.remaining:
                    continue
                if not (left := left_to_others(stats, job)):
                    return run
                if run.id not in self._left:
                    self._left.add(run.id)
                    self._observer.on_message(f"Left in run {run.id}: {left.text(job, run.id)}.")
        except QueueUnavailable as error:
            self._observer.on_message(str(error))
        return None

    async def _work_on(self, job: Job, run: Run, endings: dict[str, PoolExit]) -> PoolExit:
        job, notice = await use_settings(self._queue, job, run)
        async with AsyncExitStack() as stack:
            lock = await stack.enter_async_context(lock_of(self._queue, job, run.id))
            places: list[ScraperLock] = []
            if self._count is not None:
                places = await take_places(stack, self._queue, job, self._count)
                job = replace(job, workers=len(places))
            if notice:
                self._observer.on_message(f"Run {run.id}: {notice}")
            ending = await self._host(job, await self._queue.run(run.id), lock, places)
        endings[run.id] = _combine(endings.get(run.id), ending)
        if ExitReason.BUDGET in ending.reasons:
            self._finished.add(run.id)
        for failure in ending.failures:
            self._observer.on_message(f"Could not work on run {run.id}: {failure}")
        if ending.is_crash_loop:
            self._finished.add(run.id)
            again = shoal_command(f"start {job.name} --role worker --run {run.id}")
            self._observer.on_message(
                f"This machine does not work on run {run.id} any more: each attempt would cost more tasks. "
                f"After a repair, run: {again}"
            )
        return ending

    async def _host(self, job: Job, run: Run, lock: ScraperLock, places: Sequence[ScraperLock]) -> PoolExit:
        observer = _HostObserver(self._observer)
        async with RunHost(self._queue, job, run, observer, lock=lock, metrics=self._metrics) as host:
            self._pools.add(host.pool)
            for place in places:  # after a loss this machine joins again, with what is free
                place.when_lost(lambda why: host.pool.stop())
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

    def __init__(self, observer: RoleObserver) -> None:
        self._observer = observer

    def on_start(self, run: Run, pool: WorkerPool) -> None:
        self._observer.on_join(run)

    def on_message(self, text: str) -> None:
        self._observer.on_message(text)

    def on_output(self, line: str) -> None:
        self._observer.on_message(line)


def _combine(before: PoolExit | None, ending: PoolExit) -> PoolExit:
    """Combine the exits of two pools of one run: a run may be drained more than once."""
    if before is None:
        return ending
    failures = [*before.failures, *ending.failures]
    is_crash_loop = before.is_crash_loop or ending.is_crash_loop
    return PoolExit([*before.reasons, *ending.reasons], failures, before.tally + ending.tally, is_crash_loop)


async def start_cluster(
    config: str | Path, role: str, *, observer: RoleObserver = SILENT
) -> list[Summary] | dict[str, PoolExit]:
    """Start this machine in a role of the cluster that a project file describes, as `shoal start` does.

    `config` is the file or its folder, which is the working folder meanwhile. A coordinator returns how its
    runs ended. A worker serves until this is cancelled.
    """
    path, duty = Path(config).absolute(), Role(read_choice("role", role, list(Role)))
    if path.is_file() and path.name not in FILES:
        raise InvalidInput(f"{path} is not a project file. Name it {' or '.join(FILES)}")
    with chdir(path if path.is_dir() else path.parent):
        found = Config.read(Path.cwd(), os.environ)
        found.export_others(os.environ)
        url = queue_of(found.project, found.text("SHOAL_QUEUE"))
        entries = scrapers_of(found.project, duty)
        app = await App.open(one_address(url), found.project)
        try:
            jobs = [job_of_role(app, entry, duty) for entry in entries]
            if duty is Role.WORKER:
                count = app.project.cluster.workers.count
                return await WorkerHost(app.queue, jobs, observer, count=count).serve()
            check_places(app.project, entries)
            pairs = zip(entries, jobs, strict=True)
            runs = (coordinate_scraper(app.queue, app.project, *pair, observer=observer) for pair in pairs)
            return [summary for summary, _ in await asyncio.gather(*runs)]
        finally:
            await app.close()


def job_of_role(app: App, entry: ProjectScraper, role: Role, **more: Any) -> Job:
    """Return the job of a scraper, with the workers and logs of the project file."""
    workers, logs = app.project.cluster.workers, app.project.cluster.logs
    plan = logs.folder and LogPlan(
        folder=read_log_target(logs.folder),
        format=LogFormat(logs.format or LogFormat.HUMAN),
        level=read_level("logs.level", logs.level or "info"),
    ).within(entry.name)
    metrics = workers.metrics if role is Role.WORKER else None
    return app.job(
        entry.name,
        workers=workers.per_machine or workers.count,
        joins=True,
        steps=workers.steps and list(workers.steps),
        partitions=workers.partitions,
        heartbeat=read_positive_duration("workers.heartbeat", workers.heartbeat or DEFAULT_HEARTBEAT),
        **open_telemetry(plan or None, metrics, False, key="workers.metrics"),
        **more,
    )
