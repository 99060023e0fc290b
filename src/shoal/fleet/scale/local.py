"""The driver for workers on this machine: each is started, restarted and stopped on its own."""

import asyncio
import time
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from shoal.core.errors import QueueError
from shoal.core.model import Run
from shoal.core.tasks import restarted, watched
from shoal.fleet.job import Job
from shoal.fleet.run.host import RunHost
from shoal.fleet.run.pool import PoolExit, RunObserver, WorkerPool
from shoal.queue.contract import Queue
from shoal.worker.counters import WorkerCounters
from shoal.worker.process.forkserver import ForkServer

# Seconds for a stopped worker to finish its running tasks, and then to release them.
FINISH_TIMEOUT_SECONDS, RELEASE_TIMEOUT_SECONDS = 30.0, 5.0
MIN_START_DELAY_SECONDS, MAX_START_DELAY_SECONDS = 15.0, 300.0  # after a worker that failed for good


class SharedForkServer(ForkServer):
    """A fork server shared by many pools, which stays when one of them ends; `close` ends it."""

    def __exit__(self, *exc: object) -> None:
        return


class NoWorkers:
    """Has no workers and starts none: to see how many a run could use."""

    async def count(self) -> int:
        """Return zero."""
        return 0

    async def set(self, count: int) -> None:
        """Do nothing."""


class _WorkerSlot(msgspec.Struct, eq=False):
    """One worker, and the ones that replace it when it dies."""

    number: int
    pool: WorkerPool
    task: asyncio.Task[PoolExit]
    stopping: asyncio.Task[None] | None = None


class LocalWorkers:
    """Runs a number of worker processes on one run; the end of its context stops all of them."""

    def __init__(
        self,
        queue: Queue,
        job: Job,
        run: Run,
        observer: RunObserver | None = None,
        *,
        fork_server: SharedForkServer | None = None,
    ) -> None:
        self._fork_server = fork_server
        job = replace(job, joins=True, workers=0)
        self._host = RunHost(queue, job, run, observer, make_pool=self._make_pool)
        self._slots: set[_WorkerSlot] = set()
        self._past = WorkerCounters()
        self._stops = 0
        self._delay, self._no_start_before = MIN_START_DELAY_SECONDS, 0.0

    def _make_pool(self, queue: Queue, job: Job, run: Run, **options: Any) -> WorkerPool:
        return WorkerPool(queue, replace(job, fork_server=self._fork_server), run, **options)

    async def __aenter__(self) -> Self:
        await self._host.__aenter__()
        self._fork_server = self._fork_server or SharedForkServer()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await asyncio.gather(*(self._stop_slot(slot) for slot in list(self._slots)))
        finally:
            if self._fork_server:
                self._fork_server.close()
            await self._host.__aexit__(*exc)

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(slot.pool.in_hand for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, including those that are stopping."""
        return [pid for slot in self._slots for pid in slot.pool.pids]

    @property
    def tally(self) -> WorkerCounters:
        """What all workers have done so far."""
        return sum((slot.pool.tally for slot in self._slots), self._past)

    async def count(self) -> int:
        return len(self._active_slots())

    async def set(self, count: int) -> None:
        """Start missing workers, and stop the surplus ones with the fewest running tasks."""
        active = sorted(self._active_slots(), key=lambda slot: slot.pool.in_hand)
        for slot in active[: max(0, len(active) - count)]:
            self._start_stopping(slot)
        if self._stops or time.monotonic() < self._no_start_before:
            return
        for _ in range(count - len(active)):
            self._start_worker()

    def stop(self) -> int:
        """Finish running tasks; the second call releases them, the third kills. Return the call count."""
        self._stops += 1
        for slot in self._slots:
            slot.pool.stop()
        return self._stops

    async def wait_until_ended(self) -> None:
        """Wait until no worker is left."""
        while self._slots:
            await asyncio.wait([slot.task for slot in self._slots])
            await asyncio.sleep(0)

    def _start_stopping(self, slot: _WorkerSlot) -> None:
        duty = restarted("Ending a worker", lambda: self._stop_slot(slot), self._host.observer.on_message)
        slot.stopping = watched(asyncio.create_task(duty))

    def _active_slots(self) -> list[_WorkerSlot]:
        return [slot for slot in self._slots if slot.stopping is None and not slot.task.done()]

    def _start_worker(self) -> None:
        taken = {slot.number for slot in self._slots}
        number = next(free for free in range(len(taken) + 1) if free not in taken)
        pool = self._host.open_pool(count=1, first=number)
        slot = _WorkerSlot(number, pool, asyncio.create_task(pool.run()))
        self._slots.add(slot)
        slot.task.add_done_callback(lambda task: self._handle_exit(slot, task))

    def _handle_exit(self, slot: _WorkerSlot, task: asyncio.Task[PoolExit]) -> None:
        self._slots.discard(slot)
        self._past += slot.pool.tally
        if task.cancelled():
            return
        if error := task.exception():
            self._delay_next_start(str(error))
        elif failures := task.result().failures:
            self._delay_next_start(failures[-1])
        else:
            self._delay, self._no_start_before = MIN_START_DELAY_SECONDS, 0.0

    def _delay_next_start(self, why: str) -> None:
        """Start no worker for a while: one that cannot run would only fail again."""
        self._no_start_before = time.monotonic() + self._delay
        for line in (f"A worker failed; the next one starts in {self._delay:g} s:", *why.splitlines()):
            self._host.observer.on_message(line)
        self._delay = min(2 * self._delay, MAX_START_DELAY_SECONDS)

    async def _stop_slot(self, slot: _WorkerSlot) -> None:
        """Tell a worker to finish its tasks, then to release them, then kill it."""
        for grace in (FINISH_TIMEOUT_SECONDS, RELEASE_TIMEOUT_SECONDS, None):
            slot.pool.stop()
            with suppress(QueueError):
                done, _ = await asyncio.wait([slot.task], timeout=grace)
                if done:
                    return
