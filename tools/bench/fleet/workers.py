"""Workers, their supervisors and pools as they are, but for the pages: those only take time.

Everything that reaches the store is Shoal's own: the worker's loop and scheduler, its settlements, the
exchange of budgets and settings, the supervisor's extensions and heartbeats, and what each pool does.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

from shoal.core.errors import QueueError
from shoal.core.model import Grant, Release, Run
from shoal.fleet.job import LEASE, Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.run.pool import MIN_RESTART_DELAY_SECONDS, PoolExit, WorkerPool
from shoal.fleet.status.progress import ProgressReader, follow_progress
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.attempts import ProcessorTools
from shoal.worker.ipc.protocol import Message, SupervisorChannel, WorkerConfig
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.process.dead_worker import StepLimit
from shoal.worker.process.forkserver import ForkServer
from shoal.worker.process.heartbeat import HeartbeatSender
from shoal.worker.process.supervisor import WorkerSupervisor
from shoal.worker.run_settings import SUPERVISED_INTERVAL, SettingsFollower, read_note
from shoal.worker.scheduler import MAX_MISSES
from shoal.worker.worker import Worker
from tools.bench.fleet.workload import SCRAPER, latency, outcome_of

STEP = "page"
LIMITS = {STEP: StepLimit(LEASE, 3)}


async def page(page: Any) -> None:
    """Stand for the step of the scraper; it is never run."""


class FleetCounts:
    """What the workers of one process have done."""

    def __init__(self) -> None:
        self.failures = 0  # workers that ended because of the queue
        self.claims: list[tuple[float, float, int]] = []  # when each began, its seconds, its leases


class TimedQueue:
    """A queue whose claims are timed; everything else goes straight to it."""

    def __init__(self, queue: Queue, counts: FleetCounts) -> None:
        self._queue, self._counts = queue, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(self, *args: Any, **options: Any) -> Grant:
        """Time a claim."""
        began = time.monotonic()
        grant = await self._queue.claim(*args, **options)
        self._counts.claims.append((began, time.monotonic() - began, len(grant.leases)))
        return grant


class DirectChannel(SupervisorChannel):
    """The channel to a supervisor in the same process."""

    def __init__(self, handle: Callable[[Message], None]) -> None:
        super().__init__(None)
        self._handle = handle

    def send(self, message: Message) -> None:
        self._handle(message)


class SimulatedWorker(Worker):
    """A worker whose pages take their time and nothing else."""

    async def _handle(self, start: ScheduledLease, number: int) -> None:
        if self._scheduler.try_request(start, asyncio.get_running_loop().time()):
            await asyncio.sleep(latency())
            self._finish(number, outcome_of(start.lease))
        else:
            self._finish(number, Release(start.lease))

    def rest_long(self) -> None:
        """Behave as if it had found nothing to do for some minutes."""
        self._scheduler.polling._misses = MAX_MISSES


class SimulatedSupervisor(WorkerSupervisor):
    """Extends the leases and sends the heartbeats of a worker in this process."""

    def __init__(
        self,
        queue: Queue,
        config: WorkerConfig,
        on_claim: Callable[[bool], None],
        heartbeats: HeartbeatSender,
    ) -> None:
        super().__init__(
            queue,
            config,
            cast(ForkServer, None),
            limits=LIMITS,
            on_claim=on_claim,
            heartbeats=heartbeats,
        )
        self.worker: SimulatedWorker | None = None
        self.follower: SettingsFollower | None = None

    @property
    def is_running(self) -> bool:
        return True

    def wake_up(self) -> None:
        if self.worker and not self.in_hand:
            self.worker.wake_up()

    def announce_settings(self) -> None:
        if self.follower:
            self.follower.check_soon()

    async def work(self, worker: SimulatedWorker) -> None:
        """Run the worker until cancelled."""
        self.worker = worker
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew_leases())
            group.create_task(self._beat())
            group.create_task(worker.run())


class SimulatedPool(WorkerPool):
    """The pool of one machine, with all that a launcher does beside its workers."""

    def __init__(
        self, queue: Queue, run: Run, queues: Sequence[Queue], counts: FleetCounts, tools: ProcessorTools
    ) -> None:
        """The launcher has one queue, and each worker has one of `queues`, which may be the same."""
        self._scraper = Scraper(SCRAPER, robots=False, delay=run.settings.host_delay.total_seconds())
        self._scraper.step(page)
        job = Job(scraper=self._scraper, name=SCRAPER, reference=SCRAPER, queue_url="", workers=len(queues))
        super().__init__(queue, job, run, lock=ScraperLock(queue, SCRAPER, ()))
        self._run, self._queues, self._counts, self._tools = run, queues, counts, tools

    @property
    def pids(self) -> list[int]:
        return []

    async def launch(self, *, stagger: float, is_rested: bool) -> None:
        """Run the pool until cancelled; its workers start one after the other within so many seconds."""
        self._stagger, self._is_rested = timedelta(seconds=stagger / self._count), is_rested
        progress = ProgressReader(self._queue, self._run.id)
        async with asyncio.TaskGroup() as group:
            group.create_task(follow_progress(progress, lambda snapshot: None, is_at_work=lambda: True))
            group.create_task(self.run())

    async def _run_slots(self, ending: PoolExit) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._keep_running(number))

    async def _keep_running(self, number: int) -> None:
        await asyncio.sleep(number * self._stagger.total_seconds())
        while True:
            try:
                await self._run_simulated(number)
            except* QueueError:
                self._counts.failures += 1
            await asyncio.sleep(MIN_RESTART_DELAY_SECONDS)

    async def _run_simulated(self, number: int) -> None:
        config = self._config_of(number)
        supervisor = SimulatedSupervisor(self._queue, config, self._on_claim, self._heartbeats)
        self._supervisors[number] = supervisor
        queue = cast(Queue, TimedQueue(self._queues[number], self._counts))
        worker = SimulatedWorker(
            queue,
            self._run,
            self._scraper,
            self._tools,
            config,
            DirectChannel(supervisor._handle_message),
        )
        if self._is_rested:
            worker.rest_long()
        supervisor.follower = await self._follow_settings(queue, worker)
        await supervisor.work(worker)

    async def _follow_settings(self, queue: Queue, worker: SimulatedWorker) -> SettingsFollower:
        async def ignore(run: Run, changes: Mapping[str, Any]) -> None:
            return

        known = await read_note(queue, self._run.id)
        follower = SettingsFollower(queue, self._run.id, known, ignore)
        worker.start(follower.run(SUPERVISED_INTERVAL), "following the run's settings")
        return follower

    @property
    def count(self) -> int:
        """How many workers it has."""
        return self._count

    @property
    def settled(self) -> int:
        """How many tasks its workers have settled."""
        return sum(supervisor._settled for supervisor in self._supervisors.values())


def make_tools() -> ProcessorTools:
    """Return what workers need to be made; none of it is used."""
    return ProcessorTools({}, None, ThreadPoolExecutor(1), StepMarkers(make_file()))
