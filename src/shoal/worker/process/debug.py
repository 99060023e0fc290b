"""A worker in this process and its terminal: steps can be debugged, and the first error ends the work."""

import asyncio
import logging
import os
import pdb
import signal
import sys
import threading
import time
from bdb import BdbQuit
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from shoal.core.errors import QueueError
from shoal.core.failures import message_of
from shoal.core.model import Lease, Release, WorkerState
from shoal.fetch.singleflight import LruCache
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.worker.counters import WorkerCounters
from shoal.worker.failures.tracebacks import TracebackFormatter, library_of
from shoal.worker.hook_calls import open_resources
from shoal.worker.ipc.protocol import (
    LeasesClaimed,
    LeasesSettled,
    Message,
    SupervisorChannel,
    WorkerConfig,
    WorkerProgress,
)
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.process.heartbeat import Heartbeat
from shoal.worker.process.main import open_worker
from shoal.worker.process.procfs import pid_scope
from shoal.worker.requests.attempt import ProcessorTools
from shoal.worker.scheduler import Stop
from shoal.worker.settling.release import release_leases
from shoal.worker.worker import Worker

NO_TIME_LIMIT = timedelta(days=365)  # for steps: one may sit in the debugger
MAX_SHOWN = 10_000  # tasks that are remembered as printed
RENEW_INTERVAL_SECONDS = 5.0  # between two heartbeats, and two extensions of leases

log = logging.getLogger(__name__)
T = TypeVar("T")


class DebugSession:
    """Runs one worker in this process, one task at a time."""

    def __init__(self, config: WorkerConfig, scraper: Scraper, *, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._scraper = scraper.replace()
        for name, step in self._scraper.steps.items():
            self._scraper.steps[name] = replace(step, lease=NO_TIME_LIMIT)
        self._tracebacks = TracebackFormatter.for_code(self._scraper.first.filename)
        self._worker: Worker | None = None
        self.tally = WorkerCounters()
        self._shown: LruCache[int] = LruCache(MAX_SHOWN)  # the last attempt at each task
        self.failed = False  # whether a step has ended the session with an error

    def run(self) -> None:
        """Work until the run is drained, a step fails, or Ctrl-C, which raises KeyboardInterrupt."""
        steps = self._scraper.steps
        once = [name for name, step in steps.items() if self._scraper.at_most_once(step)]
        renewer = ThreadedLeaseRenewer(self._config, once)
        before = signal.signal(signal.SIGINT, _interrupt)
        renewer.start()
        try:
            # Not uvloop, which handles Ctrl-C only when its loop turns: a step may be running for long.
            with asyncio.Runner() as runner:
                runner.run(self._work(renewer))
        finally:
            signal.signal(signal.SIGINT, before)
            renewer.stop()

    async def _work(self, renewer: "ThreadedLeaseRenewer") -> None:
        file = make_file()
        markers = StepMarkers(file)
        os.close(file)
        async with AsyncExitStack() as stack:
            stack.callback(markers.close)
            queue = await stack.enter_async_context(open_queue(self._config.queue))
            run = await queue.run(self._config.run_id)
            await stack.enter_async_context(open_resources(self._scraper))
            self._worker = await open_worker(
                stack,
                self._config,
                renewer,
                queue,
                run,
                self._scraper,
                ProcessorTools(
                    {},
                    None,
                    InlineExecutor(),
                    markers,
                    on_begin=self._on_begin,
                    on_error=self._on_error,
                ),
            )
            self.tally = self._worker.tally
            await self._worker.run()

    def _on_begin(self, lease: Lease) -> None:
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
        else:
            trace = self._tracebacks.format(error)
            self._say(trace or f"{type(error).__name__}: {message_of(error)}")
            if not trace:
                return None  # the page could not be fetched
            self.failed = True
            if sys.stdin.isatty():
                inspect_error(error, self._tracebacks)
        assert self._worker
        self._worker.stop(Stop.RELEASE)
        is_once = self._scraper.at_most_once(self._scraper.handler(lease.task))
        return None if is_once else Release(lease)


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
                info["pid_scope"] = pid_scope()
                await queue.beat(config.worker_id, run_id=config.run_id, state=state, info=info)
                await queue.extend(held, lease=config.lease)
            if is_over:
                break
            # Read once for each heartbeat: the last one must say "ended" whenever the session ends.
            is_over = await asyncio.to_thread(self._over.wait, interval)
        if self._held:
            with suppress(QueueError):
                await release_leases(queue, config.worker_id, once=self._once, how="was stopped")


def _interrupt(*_: object) -> NoReturn:
    """Handle Ctrl-C as programs without an event loop do: at once, wherever it is."""
    raise KeyboardInterrupt
