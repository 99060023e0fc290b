"""A worker in the event loop of the program that calls it, without a process of its own."""

import asyncio
import logging
import os
from bdb import BdbQuit
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

from shoal.core.model import Lease, Release, Run
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.counters import WorkerCounters
from shoal.worker.fetchers.chain import open_egress
from shoal.worker.hook_calls import open_resources
from shoal.worker.ipc.protocol import ExitReason, WorkerConfig
from shoal.worker.ipc.step_markers import CELLS, StepMarkers, make_file
from shoal.worker.process.debug import ThreadedLeaseRenewer
from shoal.worker.process.main import open_worker
from shoal.worker.requests.attempt import ProcessorTools
from shoal.worker.run_settings.follow import SettingsFollower
from shoal.worker.run_settings.stored import read_note
from shoal.worker.scheduler import Stop
from shoal.worker.worker import Worker

log = logging.getLogger(__name__)


class InlineWorker:
    """Runs one worker here; to its pool it looks like the supervisor of a worker process.

    A thread extends its leases, since a step may block the event loop, or wait in the debugger.
    """

    def __init__(
        self,
        queue: Queue,
        config: WorkerConfig,
        run: Run,
        scraper: Scraper,
        *,
        is_held: Callable[[], bool] | None = None,
    ) -> None:
        self._queue, self._config, self._run = queue, config, run
        self._scraper, self._is_held = scraper.replace(), is_held
        self._worker: Worker | None = None
        self._markers: StepMarkers | None = None
        self._task: asyncio.Task[ExitReason] | None = None
        self._stop: Stop | None = None
        self._is_cancelled = False  # by the caller
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
        self._is_cancelled = True
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
                self._is_cancelled = True
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
            threads = ThreadPoolExecutor(CELLS - 1, thread_name_prefix="step")
            # A step that is running in a thread cannot be interrupted: its result is dropped.
            stack.callback(threads.shutdown, wait=False, cancel_futures=True)
            egress = open_egress(self._scraper.settings)
            resources = open_resources(self._scraper, may_cancel=lambda: self._is_cancelled)
            await stack.enter_async_context(resources)
            worker = self._worker = await open_worker(
                stack,
                self._config,
                self._renewer,
                self._queue,
                self._run,
                self._scraper,
                ProcessorTools({}, None, threads, self._markers, on_error=self._on_error),
                egress,
            )
            worker.is_held = self._is_held

            async def change_settings(run: Run, changes: Mapping[str, Any]) -> None:
                await worker.change_settings(run, changes)
                egress.set_allowed(self._scraper.settings.allow_private)

            follower = SettingsFollower(
                self._queue, self._run.id, known, change_settings, is_resting=lambda: worker.is_resting
            )
            worker.before_work = follower.check
            worker.start(follower.run(), "following the run's settings")
            if self._stop:
                worker.stop(self._stop)
            reason = await worker.run()
            if self._stop is not Stop.RELEASE:
                await asyncio.to_thread(threads.shutdown)
            return reason

    def _close_markers(self) -> None:
        markers, self._markers = self._markers, None
        if markers and not markers.running_steps():  # a step in a thread removes its mark when it ends
            markers.close()

    def _on_error(self, lease: Lease, error: Exception) -> Release | None:
        """End the work if the user has left the debugger; that is no error of the task."""
        if not isinstance(error, BdbQuit):
            return None
        self.quit = error
        self.stop()
        self.stop()
        is_once = self._scraper.at_most_once(self._scraper.handler(lease.task))
        return None if is_once else Release(lease)
