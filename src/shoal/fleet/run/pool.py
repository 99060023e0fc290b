"""The worker pool of one run on this machine: starts workers, restarts dead ones, stops them together."""

import asyncio
import errno
import resource
from collections.abc import Collection
from contextlib import AsyncExitStack, nullcontext
from typing import NamedTuple

import msgspec

from shoal.core.errors import DutyFailed, HookFailed, InvalidSetting, QueueError, ShoalError
from shoal.core.model import Run
from shoal.core.tasks import repeat, watched
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.maintenance import maintained
from shoal.fleet.partitions.membership import Membership, admit
from shoal.fleet.run.run_hooks import RunHooks
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rates import recorded_rates
from shoal.fleet.telemetry.logs import NO_LOGS, LogDirectory
from shoal.fleet.telemetry.worker_log import Warned, WorkerLifecycleLog, WorkerLogEntry
from shoal.queue.contract import Queue
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.protocol import ExitReason, WorkerConfig
from shoal.worker.page_limit import release_pages
from shoal.worker.process.dead_worker import Suspects, once_steps, release_leases
from shoal.worker.process.forkserver import ForkServer
from shoal.worker.process.heartbeat import HeartbeatSender
from shoal.worker.process.supervisor import WorkerExit, WorkerSupervisor
from shoal.worker.run_settings import FOLLOW_INTERVAL, pause_of, read_note

MAX_KILLERS = 5  # different tasks in a row, with none completed in between


class Breaker(msgspec.Struct):
    """The circuit breaker of a crash loop: counts tasks that killed their worker since one was completed."""

    # Never cleared: at the end of a run only killers may be left that were tried before, among good tasks.
    _killers: set[str] = msgspec.field(default_factory=set)
    _new: int = 0  # deaths in a row caused by a task not in `_killers` yet
    _done: int = 0

    def record_completed(self, done: int) -> None:
        """Record how many tasks the pool has completed so far; any increase resets the count."""
        if done > self._done:
            self._done, self._new = done, 0

    def record_death(self, killers: Collection[str]) -> None:
        """Record that these tasks killed their worker."""
        # When several steps were running, one of them killed the worker: a death counts once.
        self._new += not self._killers.issuperset(killers)
        self._killers.update(killers)

    @property
    def deaths(self) -> int:
        """How many workers were killed by different tasks since a task was last completed."""
        return self._new

    @property
    def reason(self) -> str | None:
        """Why no more workers should start; None while they may."""
        if self._new < MAX_KILLERS:
            return None
        return (
            f"CrashLoop: {self._new} different tasks in a row have killed their worker, and none "
            "was completed. The step, or a library it uses, does not work on this machine"
        )


MAX_RESTARTS = 5  # in a row, with no task settled in between
MIN_RESTART_DELAY_SECONDS, MAX_RESTART_DELAY_SECONDS = 0.5, 30.0
LATE_CLAIM_DELAYS = (1.0, 5.0)  # seconds after a worker died: its last claim may be granted after its end


class PoolExit(msgspec.Struct):
    """How the workers of a pool ended."""

    reasons: list[ExitReason] = msgspec.field(default_factory=list)
    failures: list[str] = msgspec.field(default_factory=list)
    tally: WorkerCounters = msgspec.field(default_factory=WorkerCounters)
    is_crash_loop: bool = False  # another pool on this machine would end alike, and cost more tasks

    @property
    def failed(self) -> bool:
        """Whether no worker ended normally."""
        return bool(self.failures) and not self.reasons


class RunObserver:
    """Receives the progress and messages of the workers on a run; these methods ignore them."""

    shows_progress = False  # whether `on_progress` is called

    def on_start(self, run: Run, pool: "WorkerPool") -> None:
        """Handle the start of the workers."""

    def on_progress(self, snapshot: Snapshot, pool: "WorkerPool") -> None:
        """Handle the counts of the run, which are read again and again."""

    def on_message(self, text: str) -> None:
        """Handle an event that the user should know of."""

    def on_problem(self, text: str) -> None:
        """Handle a warning about the store or this machine."""
        self.on_message(text)

    def on_output(self, line: str) -> None:
        """Handle a line that a step has printed."""

    def on_warning(self, warned: Warned) -> None:
        """Handle what a worker has logged."""
        for line in warned.message.split("\n"):
            self.on_output(line)


class _SlotWorker(NamedTuple):
    supervisor: WorkerSupervisor
    entry: WorkerLogEntry


class WorkerPool:
    """Keeps a number of workers running on one run."""

    def __init__(
        self,
        queue: Queue,
        job: Job,
        run: Run,
        *,
        lock: ScraperLock,
        observer: RunObserver | None = None,
        logs: LogDirectory = NO_LOGS,
        count: int | None = None,
        first: int = 0,
    ) -> None:
        """Fill `count` slots, by default as many as the job has workers, numbered from `first`."""
        observer = observer or RunObserver()
        config = self._config_for(job, run)
        self._queue, self._config, self._fork_server = queue, config, job.fork_server
        self._count = job.workers if count is None else count
        self._limits, self._on_event, self._stagger = job.limits(), observer.on_message, job.stagger
        self._first, self._lock = first, lock
        self._supervisors: dict[int, WorkerSupervisor] = {}
        self._heartbeats = HeartbeatSender(queue, config.run_id)
        self._past, self._past_completed = WorkerCounters(), 0
        self._breaker, self._suspects = Breaker(), Suspects()
        self._lost: dict[str, asyncio.Task[None]] = {}  # dead workers and the tasks that release their leases
        self._log = WorkerLifecycleLog(logs, config.run_id, observer.on_output, observer.on_warning)
        self._membership = Membership(queue, config.run_id, config.sharing) if config.sharing else None
        self._settings_stamp: int | None = None
        self._has_pauses = job.scraper.settings.pause is not None
        self._claimed = asyncio.Event()
        self._slots_left = self._count
        self._stops = 0
        self._stopping = asyncio.Event()
        self._is_over = False  # whether a worker has found the run drained
        self.hooks: RunHooks | None = None  # of the run

    def _config_for(self, job: Job, run: Run) -> WorkerConfig:
        return job.worker_config(run)

    @property
    def tally(self) -> WorkerCounters:
        """What all workers have done so far."""
        return sum((supervisor.tally for supervisor in self._supervisors.values()), self._past)

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(len(supervisor.in_hand) for supervisor in self._supervisors.values())

    @property
    def restarts(self) -> int:
        """How many workers were started to replace dead ones."""
        return self._log.restarts

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [
            supervisor.pid
            for supervisor in self._supervisors.values()
            if supervisor.is_running and supervisor.pid
        ]

    @property
    def frozen_pids(self) -> list[int]:
        """Process ids of the workers that do not respond, and are killed if that goes on."""
        frozen = [one for one in self._supervisors.values() if one.is_running and one.is_frozen]
        return [one.pid for one in frozen if one.pid]

    @property
    def stops(self) -> int:
        """How often `stop` was called."""
        return self._stops

    def stop(self) -> int:
        """Finish running tasks; the second call releases them, the third kills. Return the call count."""
        self._stops += 1
        self._log.log_stopping(self._stops, self.in_hand)
        self._stopping.set()
        for supervisor in self._supervisors.values():
            supervisor.stop() if self._stops < 3 else supervisor.kill()
        if self._membership:
            self._membership.retire()
        if self.hooks:
            self.hooks.stop(is_urgent=self._stops > 1)
        return self._stops

    async def run(self) -> PoolExit:
        """Run until the run is drained or stopped, or no worker can run; raises ScraperBusy."""
        ending = PoolExit()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._lock)
            self._lock.when_lost(self._stop_without_lock)
            await stack.enter_async_context(maintained(self._queue))
            await stack.enter_async_context(recorded_rates(self._queue, self._config.run_id))
            following = watched(asyncio.create_task(repeat(self.check_settings, FOLLOW_INTERVAL, jitter=0.1)))
            stack.callback(following.cancel)
            await admit(self._queue, self._config.run_id, self._config.sharing)
            if self._membership:
                await stack.enter_async_context(self._membership)
            await self._run_with_hooks(ending)
        for worker_id, releasing in self._lost.items():
            if not releasing.done():
                releasing.cancel()
                await self._release(worker_id)
        ending.tally = self._past
        return ending

    async def _run_with_hooks(self, ending: PoolExit) -> None:
        """Call the hooks of the run before the first worker starts, and when the run has ended."""
        if self.hooks:
            try:
                await self.hooks.start()
            except HookFailed as error:
                ending.failures.append(str(error))
                return
        await self._run_slots(ending)
        if self.hooks and {ExitReason.DRAINED, ExitReason.BUDGET}.intersection(ending.reasons):
            await self.hooks.finish()

    async def check_settings(self) -> None:
        """Tell the workers when the settings of the run have changed: one read serves all of them.

        While they hold nothing, it waits: thousands of idle workers must not load the queue. Those that
        pause hold nothing either, and are told.
        """
        if not self.in_hand and not self._has_pauses:
            self._claimed.clear()
            await self._claimed.wait()
        note = await read_note(self._queue, self._config.run_id)
        self._has_pauses = pause_of(note.settings) is not None
        if note.stamp != self._settings_stamp:
            self._settings_stamp = note.stamp
            for supervisor in self._supervisors.values():
                supervisor.announce_settings()

    async def _run_slots(self, ending: PoolExit) -> None:
        try:
            with self._fork_server or ForkServer() as fork_server:
                async with asyncio.TaskGroup() as group:
                    for number in range(self._first, self._first + self._count):
                        slot = group.create_task(self._keep_slot_running(fork_server, number, ending))
                        slot.add_done_callback(self._count_slot)
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            if isinstance(first, ShoalError):
                raise first from errors
            if isinstance(first, OSError) and first.errno in (errno.EMFILE, errno.ENFILE):
                limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                raise InvalidSetting(
                    "workers",
                    f"of {self._count} is too many for the {limit} files that this process may open. "
                    "Start fewer, or raise its limit: ulimit -n 65536",
                ) from errors
            raise DutyFailed("Supervising a worker", first) from errors

    def _count_slot(self, _slot: asyncio.Task[None]) -> None:
        self._slots_left -= 1

    def _stop_without_lock(self, why: str) -> None:
        self._on_event(f"{why} Stopping.")
        self.stop()

    async def _keep_slot_running(self, fork_server: ForkServer, number: int, ending: PoolExit) -> None:
        """Run a worker in one slot; restart it when it dies: a new worker replaces the dead one."""
        deaths = 0
        await self._wait((number - self._first) * self._stagger.total_seconds())
        while not self._stops and not self._is_over:
            last = await self._run_worker(fork_server, number)
            if last.reason not in (ExitReason.DIED, ExitReason.FAILED):
                self._record_normal_exit(last.reason, ending)
                return
            # A worker killed by its task, or one that had settled a task, does not count as failing to start.
            deaths = 1 if last.blamed or last.settled else deaths + 1
            crash_loop = self._breaker.reason if last.killers else None
            if last.reason is ExitReason.FAILED or deaths > MAX_RESTARTS or crash_loop:
                self._give_up(number, last, ending, crash_loop)
                return
            if not self._stops:
                self._log.restarts += 1
                self._on_event(f"A worker {last.message}; starting another.")
                self._suspect(last)
                await self._wait(self._restart_delay(last, deaths))
        ending.reasons.append(ExitReason.STOPPED if self._stops else ExitReason.DRAINED)

    def _suspect(self, last: WorkerExit) -> None:
        """Record the tasks that were in progress when a worker died while no step was running."""
        if last.suspects:
            limit, count = self._suspects.add(last.suspects), len(last.suspects)
            what = (
                f"{count} tasks were in progress: they run"
                if count > 1
                else "a task was in progress: it runs"
            )
            how = f"at most {limit} at a time" if limit > 1 else "alone"
            self._on_event(f"No step was running, and {what} {how} now, to find the cause.")

    def _record_normal_exit(self, reason: ExitReason, ending: PoolExit) -> None:
        ending.reasons.append(reason)
        if reason is not ExitReason.STOPPED:
            # Slots that still wait for their staggered start need not wait any longer.
            self._is_over = True
            self._stopping.set()
            for supervisor in self._supervisors.values():
                supervisor.wake_up()  # those that have long found nothing would end late

    def _on_claim(self, is_full: bool) -> None:
        self._claimed.set()
        if is_full:
            self._wake_one()

    def _wake_one(self) -> None:
        """Wake an idle worker, because another one has found as much work as it takes."""
        idle = next((one for one in self._supervisors.values() if one.is_running and not one.in_hand), None)
        if idle:
            idle.wake_up()

    def _restart_delay(self, last: WorkerExit, deaths: int) -> float:
        """Return the delay before the next worker starts; it doubles while no task is completed."""
        if last.killers:
            deaths = self._breaker.deaths - 1  # a single task that kills its worker causes no delay
        if not deaths:
            return 0.0
        return min(MIN_RESTART_DELAY_SECONDS * 2.0 ** (deaths - 1), MAX_RESTART_DELAY_SECONDS)

    def _give_up(self, number: int, last: WorkerExit, ending: PoolExit, crash_loop: str | None) -> None:
        self._log.log_given_up(number, last, crash_loop)
        how = f"failed: {last.message}" if last.reason is ExitReason.FAILED else last.message
        words = [last.message, *([crash_loop] if crash_loop else []), *last.last_lines]
        ending.failures.append("\n".join(words))
        ending.is_crash_loop |= crash_loop is not None
        if self._count > 1:
            end = "" if how.endswith(".") else "."
            others = "; the others continue" if self._slots_left > 1 else ""
            self._on_event(f"Worker {number + 1} {how}{end} It is not restarted{others}.")
            if crash_loop:
                self._on_event(f"{crash_loop}.")
            if last.last_lines:
                self._on_event("Last lines of its output:")
            for line in last.last_lines:
                self._on_event(line)

    def _config_of(self, number: int) -> WorkerConfig:
        # Those that share partitions look for different tasks.
        may_rest = number > self._first and not self._config.sharing
        return msgspec.structs.replace(
            self._config, worker_id=new_worker_id(), may_rest=may_rest, suspects=self._suspects.limits
        )

    def _new_worker(self, fork_server: ForkServer, number: int) -> "_SlotWorker":
        config = self._config_of(number)
        entry = self._log.entry(number, config.worker_id)
        supervisor = WorkerSupervisor(
            self._queue,
            config,
            fork_server,
            limits=self._limits,
            on_output=entry.log_output,
            on_event=entry.log_event,
            on_claim=self._on_claim,
            heartbeats=self._heartbeats,
        )
        return _SlotWorker(supervisor, entry)

    async def _run_worker(self, fork_server: ForkServer, number: int) -> WorkerExit:
        supervisor, entry = self._new_worker(fork_server, number)
        self._supervisors[number], worker_id = supervisor, supervisor.config.worker_id
        try:
            async with self._membership.member(worker_id) if self._membership else nullcontext():
                entry.log_start()
                ending = entry.log_exit(await supervisor.run())
            if ending.reason is ExitReason.DIED:
                releasing = watched(asyncio.create_task(self._release_late_claims(worker_id)))
                self._lost[worker_id] = releasing
            self._breaker.record_completed(self._completed)
            self._breaker.record_death(ending.killers)
            return ending
        finally:
            del self._supervisors[number]
            self._past += supervisor.tally
            self._past_completed += supervisor.completed

    @property
    def _completed(self) -> int:
        return self._past_completed + sum(supervisor.completed for supervisor in self._supervisors.values())

    async def _release_late_claims(self, worker_id: str) -> None:
        await self._release(worker_id)
        for seconds in LATE_CLAIM_DELAYS:
            await asyncio.sleep(seconds)
            await self._release(worker_id)

    async def _release(self, worker_id: str) -> None:
        try:
            await release_leases(self._queue, worker_id, once=once_steps(self._limits))
            await release_pages(self._queue, self._config.run_id, worker_id)
        except QueueError:
            return  # the leases expire
        except Exception as error:
            self._on_event(f"{DutyFailed('Releasing the leases of a dead worker', error)}. They will expire.")

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
