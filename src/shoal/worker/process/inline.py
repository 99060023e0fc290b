"""A worker in this process: in the event loop of the program that calls it, or in a terminal to debug it."""

import asyncio
import logging
import os
import pdb
import sys
import threading
import time
from bdb import BdbQuit
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from shoal.core.errors import QueueError
from shoal.core.failures import message_of
from shoal.core.model import SEED_STEP, Lease, Release, Run, WorkerState
from shoal.fetch.singleflight import LruCache
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from shoal.worker.attempts import ProcessorTools
from shoal.worker.counters import WorkerCounters
from shoal.worker.failures.tracebacks import TracebackFormatter, library_of
from shoal.worker.hook_calls import open_resources
from shoal.worker.ipc.protocol import (
    ExitReason,
    LeasesClaimed,
    LeasesSettled,
    Message,
    SupervisorChannel,
    WorkerConfig,
    WorkerProgress,
)
from shoal.worker.ipc.step_markers import CELLS, StepMarkers, make_file
from shoal.worker.process.dead_worker import release_leases
from shoal.worker.process.heartbeat import Heartbeat
from shoal.worker.process.main import open_worker
from shoal.worker.run_settings import read_note
from shoal.worker.scheduler import Stop
from shoal.worker.telemetry.observer import Observer
from shoal.worker.worker import Worker

NO_TIME_LIMIT = timedelta(days=365)  # for steps: one may sit in the debugger
MAX_SHOWN = 10_000  # tasks that are remembered as printed
RENEW_INTERVAL_SECONDS = 5.0  # between two heartbeats, and two extensions of leases

log = logging.getLogger(__name__)
T = TypeVar("T")


class InlineWorker:
    """Runs one worker here; to its pool it looks like the supervisor of a worker process.

    A thread extends its leases, since a step may block the event loop, or wait in the debugger.
    """

    def __init__(self, queue: Queue, config: WorkerConfig, run: Run, scraper: Scraper) -> None:
        self._queue, self._config, self._run = queue, config, run
        self._scraper = scraper.replace()
        self.is_held: Callable[[], bool] | None = None  # whether to claim nothing for now
        self._worker: Worker | None = None
        self._markers: StepMarkers | None = None
        self._task: asyncio.Task[ExitReason] | None = None
        self._stop: Stop | None = None
        self.quit: BdbQuit | None = None  # the user has left the debugger
        once = [name for name, step in scraper.steps.items() if scraper.at_most_once(step)]
        self._renewer = ThreadedLeaseRenewer(config, once)

    @property
    def tally(self) -> WorkerCounters:
        """What it has done so far."""
        return self._worker.tally if self._worker else WorkerCounters()

    @property
    def completed(self) -> int:
        """The number of tasks that it has completed."""
        return self.tally.pages

    @property
    def in_hand(self) -> range:
        """As many entries as it holds leases."""
        return range(self._worker.in_hand if self._worker else 0)

    @property
    def pid(self) -> int:
        """The process that it works in."""
        return os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._task is not None and not self._task.done()

    @property
    def is_in_step(self) -> bool:
        """Whether the code of a step is running on the event loop at this moment."""
        return self._markers is not None and self._markers.loop_step() is not None

    def stop(self) -> None:
        """Finish the started tasks; the second call releases them."""
        self._stop = Stop.RELEASE if self._stop else Stop.FINISH
        if self._worker:
            self._worker.stop(self._stop)

    def announce_settings(self) -> None:
        """Nothing: it reads the settings itself."""

    def wake_up(self) -> None:
        """Look for work now."""
        if self._worker:
            self._worker.wake_up()

    def kill(self) -> None:
        """End without waiting for anything; what is leased is released."""
        if self._task:
            self._task.cancel()

    async def run(self) -> ExitReason:
        """Work until the run is drained or `stop`; raises the error that ends the worker."""
        working = self._task = asyncio.create_task(self._work())
        self._renewer.start()
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            if not working.done():
                working.cancel()
                await asyncio.wait([working])
                raise
            return ExitReason.STOPPED  # killed
        finally:
            # The renewer's last duty is to release what is still leased; its thread must not outlive the run.
            await asyncio.shield(asyncio.to_thread(self._renewer.stop))

    async def _work(self) -> ExitReason:
        file = make_file()
        self._markers = StepMarkers(file)
        os.close(file)
        known = await read_note(self._queue, self._run.id)
        async with AsyncExitStack() as stack:
            stack.callback(self._close_markers)
            threads = self._open_threads()
            # A step that is running in a thread cannot be interrupted: its result is dropped.
            stack.callback(threads.shutdown, wait=False, cancel_futures=True)
            await stack.enter_async_context(open_resources(self._scraper, self._queue, self._run))
            tools = ProcessorTools(
                {}, None, threads, self._markers, observers=self._observers, on_error=self._on_error
            )
            worker, follower = await open_worker(
                stack, self._config, self._renewer, self._queue, self._run, self._scraper, tools, known
            )
            self._worker, worker.is_held = worker, self.is_held
            worker.start(follower.run(), "following the run's settings")
            if self._stop:
                worker.stop(self._stop)
            reason = await worker.run()
            if self._stop is not Stop.RELEASE:
                await asyncio.to_thread(threads.shutdown)
            return reason

    _observers: Sequence[Observer] = ()

    def _open_threads(self) -> Executor:
        return ThreadPoolExecutor(CELLS - 1, thread_name_prefix="step")

    def _close_markers(self) -> None:
        markers, self._markers = self._markers, None
        if markers and not markers.running_steps():  # a step in a thread removes its mark when it ends
            markers.close()

    def _on_error(self, lease: Lease, error: Exception) -> Release | None:
        """End the work if the user has left the debugger; that is no error of the task."""
        if not isinstance(error, BdbQuit):
            return None
        self.quit = error
        return self._end_work(lease)

    def _end_work(self, lease: Lease) -> Release | None:
        self.stop()
        self.stop()
        is_once = self._scraper.at_most_once(self._scraper.handler(lease.task))
        return None if is_once else Release(lease)


class DebugWorker(InlineWorker, Observer):
    """Runs its steps in this thread, one task at a time; the first error of a step ends the work."""

    def __init__(
        self, queue: Queue, config: WorkerConfig, run: Run, scraper: Scraper, *, say: Callable[[str], None]
    ) -> None:
        super().__init__(queue, config, run, scraper)
        for name, step in self._scraper.steps.items():
            self._scraper.steps[name] = replace(step, lease=NO_TIME_LIMIT)
        self._tracebacks = TracebackFormatter.for_code(self._scraper.first.filename)
        self._shown: LruCache[int] = LruCache(MAX_SHOWN)  # the last attempt at each task
        self._say = say
        self._observers = [self]
        self.has_failed = False  # whether a step has ended the work with an error

    def _open_threads(self) -> Executor:
        return InlineExecutor()

    def on_begin(self, lease: Lease) -> None:
        # A task that has to wait for its host is released and claimed again, as the same attempt.
        if self._shown.get(lease.task_id) == lease.attempt:
            return
        self._shown.put(lease.task_id, lease.attempt)
        task, first = lease.task, self._scraper.first.name
        again = f" (attempt {lease.attempt})" if lease.attempt > 1 else ""
        name = first if task.step == SEED_STEP else task.step
        self._say(f"{name}: {task.url or dict(task.payload)}{again}")

    def _on_error(self, lease: Lease, error: Exception) -> Release | None:
        """Show an error, and let the user look at it if a step raised it; then nothing else is begun."""
        if isinstance(error, BdbQuit):
            self._say("You left the debugger.")
            return self._end_work(lease)
        trace = self._tracebacks.format(error)
        self._say(trace or f"{type(error).__name__}: {message_of(error)}")
        if not trace:
            return None  # the page could not be fetched
        self.has_failed = True
        if sys.stdin.isatty():
            inspect_error(error, self._tracebacks)
        return self._end_work(lease)


class PostMortem(pdb.Pdb):
    """A debugger that starts at the innermost frame of the user's code."""

    def __init__(self, own: str | None) -> None:
        super().__init__()
        self._own = own

    def setup(self, frame: Any, tb: Any) -> Any:
        result = super().setup(frame, tb)
        mine = [
            index
            for index, (each, _) in enumerate(self.stack)
            if library_of(each.f_code.co_filename) in (None, self._own)
        ]
        if mine:
            self.curindex = mine[-1]
            self.curframe = self.stack[self.curindex][0]
            self.curframe_locals = self.curframe.f_locals
        return result


def inspect_error(error: BaseException, tracebacks: TracebackFormatter) -> None:
    """Open the debugger where an error was raised."""
    debugger = PostMortem(tracebacks.own)
    debugger.reset()
    with suppress(BdbQuit):
        debugger.interaction(None, error.__traceback__)


class InlineExecutor(Executor):
    """Runs functions at once in the calling thread: a debugger can then be left and interrupted."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class ThreadedLeaseRenewer(SupervisorChannel):
    """Extends the worker's leases from another thread: the event loop stops while one is in the debugger."""

    def __init__(self, config: WorkerConfig, once: Collection[str] = ()) -> None:
        """`once` are the steps whose tasks are attempted once at most."""
        super().__init__(None)
        self._config, self._once, self._tally = config, once, WorkerCounters()
        self._held: dict[int, Lease] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease renewer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Release what is still leased, and end the thread."""
        self._over.set()
        self._thread.join()

    def send(self, message: Message) -> None:
        match message:
            case LeasesClaimed(first=first, leases=leases):
                self._held.update(enumerate(leases, first))
            case LeasesSettled(numbers=numbers):
                for number in numbers:
                    self._held.pop(number, None)
            case WorkerProgress(tally=tally):
                self._tally = tally
            case _:
                pass

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        while not self._over.is_set():
            try:
                async with open_queue(self._config.queue) as queue:
                    await self._renew(queue)
                return
            except QueueError as error:
                log.warning("The leases of this worker are not extended at the moment: %s", error)
            await asyncio.to_thread(self._over.wait, 1.0)

    async def _renew(self, queue: Queue) -> None:
        config, heartbeat = self._config, Heartbeat(self._config)
        interval = min(RENEW_INTERVAL_SECONDS, config.lease.total_seconds() / 3)
        is_over = False
        while True:
            with suppress(QueueError):
                held = list(self._held.values())
                info = heartbeat.info(os.getpid(), self._tally, time.monotonic(), len(held))
                state = WorkerState.ENDED if is_over else WorkerState.RUNNING
                await queue.beat(config.worker_id, run_id=config.run_id, state=state, info=info)
                await queue.extend(held, lease=config.lease)
            if is_over:
                break
            # Read once for each heartbeat: the last one must say "ended" whenever the session ends.
            is_over = await asyncio.to_thread(self._over.wait, interval)
        if self._held:
            with suppress(QueueError):
                await release_leases(queue, config.worker_id, once=self._once, how="was stopped")
