"""Workers that a program starts on runs, and that work while it goes on: those of an app and a web server."""

import asyncio
import logging
from datetime import timedelta

from msgspec.structs import replace

from shoal.core.errors import DutyFailed, InvalidInput, ShoalError
from shoal.core.model import Run, RunState
from shoal.core.redact import redactor
from shoal.fleet.build_job import is_mode
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.partitions.membership import admit, planned_mode
from shoal.fleet.run.host import FINISH_TIMEOUT, RunHost
from shoal.fleet.run.lifecycle import check_not_cancelled, resume
from shoal.fleet.run.pool import RunObserver
from shoal.queue.contract import Queue

log = logging.getLogger(__name__)
END_TIMEOUT = timedelta(seconds=10)
DUTY = "Supervising the workers"
MAX_FAILURES = 50  # runs whose last failure is remembered


class LogObserver(RunObserver):
    """Logs what happens to workers that nobody watches."""

    def on_message(self, text: str) -> None:
        """Log an event."""
        log.info("%s", text)

    def on_problem(self, text: str) -> None:
        """Log a warning."""
        log.warning("%s", text)


class BackgroundWorkers:
    """Runs the workers of a host until its run is drained or they are told to end."""

    def __init__(self, host: RunHost) -> None:
        self._host, self.run_id, self.workers = host, host.run.id, host.job.workers
        self.scraper, self.has_metrics = host.job.scraper.name, host.job.metrics is not None
        self._task: asyncio.Task[None] | None = None
        self._error: ShoalError | None = None
        self._failures: list[str] = []

    async def start(self) -> None:
        """Start them; raises ScraperBusy."""
        await self._host.__aenter__()  # which holds the lock from now on
        self._task = asyncio.create_task(self._work())

    def check(self) -> bool:
        """Return whether the workers have ended; raises the error that ended them, if there was one."""
        if self._error:
            raise self._error
        if self._failures:
            raise ShoalError(f"The workers of run {self.run_id} have stopped: {self._failures[0]}")
        return not self.is_working

    @property
    def is_working(self) -> bool:
        """Whether the workers are still running."""
        return self._task is not None and not self._task.done()

    @property
    def is_stopping(self) -> bool:
        """Whether the workers were told to stop and have not ended yet."""
        return self.is_working and self._host.pool.stops > 0

    @property
    def failure(self) -> str:
        """Why the workers ended early; empty if they did not."""
        return str(self._error) if self._error else "\n".join(self._failures)

    def stop(self) -> None:
        """Let the workers finish their running tasks and end; after a while the tasks are released."""
        if self.is_working and not self._host.pool.stops:
            self._host.pool.stop()
            asyncio.get_running_loop().call_later(FINISH_TIMEOUT.total_seconds(), self.release)

    def release(self) -> None:
        """Let the workers end as soon as they can; their running tasks are released."""
        while self.is_working and self._host.pool.stops < 2:
            self._host.pool.stop()

    async def wait(self, timeout: timedelta | None = None) -> None:
        """Wait until they have ended."""
        if self._task:
            await asyncio.wait([self._task], timeout=timeout.total_seconds() if timeout else None)

    async def close(self) -> None:
        """Close the host of workers that have ended."""
        await self._host.__aexit__(None, None, None)

    async def _work(self) -> None:
        try:
            try:
                ending = await self._host.work()
            finally:
                if not self.has_metrics:
                    await self.close()
        except Exception as error:
            failed = DutyFailed(DUTY, error)
            failed.__cause__ = error
            self._error = error if isinstance(error, ShoalError) else failed
            log.error("%s. Run %s has no more workers here.", failed, self.run_id)
            return
        redact = redactor(self._host.job.secrets)
        self._failures = [redact(failure) for failure in ending.failures]  # with lines of their output
        for failure in ending.failures:
            log.error("Could not continue run %s: %s", self.run_id, failure)


class LocalPools:
    """The workers of this process by run; they end when their run is drained, or at `close`."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._groups: list[BackgroundWorkers] = []
        self._failed: dict[str, BackgroundWorkers] = {}  # the last workers of a run, the newest last
        self.starting = asyncio.Lock()  # held while the number that may still start is checked

    def count(self, run_id: str | None = None) -> int:
        """Return how many workers run here, on one run or on all."""
        self._forget_ended()
        found = [group for group in self._groups if group.is_working]
        return sum(group.workers for group in found if run_id in (None, group.run_id))

    def is_stopping(self, run_id: str) -> bool:
        """Whether workers of a run were told to stop, and are finishing their tasks."""
        self._forget_ended()
        return any(group.is_stopping for group in self._groups if group.run_id == run_id)

    def check(self, run_id: str) -> bool:
        """Return whether no worker of a run is here any more; raises why its last ones ended early."""
        is_over = not self.count(run_id)
        return self._failed[run_id].check() if run_id in self._failed else is_over

    def failure(self, run_id: str) -> str:
        """Return why the last workers of a run ended early; empty if they did not."""
        self._forget_ended()
        return self._failed[run_id].failure if run_id in self._failed else ""

    async def add(self, job: Job, run: Run, *, lock: ScraperLock | None = None) -> BackgroundWorkers:
        """Start the workers of a job on a run; raises ScraperBusy."""
        group = BackgroundWorkers(RunHost(self._queue, job, run, LogObserver(), lock=lock))
        await group.start()
        self._failed.pop(run.id, None)
        self._groups.append(group)
        return group

    async def start(self, run: Run, job: Job, workers: int) -> None:
        """Start workers on a run, beside those that work on it already, here or elsewhere.

        They follow the partition plan of the run, if it has one. Raises InvalidInput if it has no task left,
        RunConflict if it was cancelled, has used its max_pages or they may not join it, and ScraperBusy.
        """
        run = await self._queue.run(run.id)
        check_not_cancelled(run)
        if run.state is RunState.PARTIAL:
            run = await resume(self._queue, run.id)
        if not (await self._queue.stats(run.id)).remaining:
            raise InvalidInput(f"Run {run.id} has no tasks left, so workers would have nothing to do.")
        if not job.partitions or is_mode(job.partitions):
            mode = await planned_mode(self._queue, run.id)
            job = replace(job, partitions=[mode] if mode else job.partitions)
        await admit(self._queue, run.id, job.sharing)
        await self.add(replace(job, workers=workers, joins=True), run)

    async def wait_for_drained(self, scraper: str) -> None:
        """Wait for workers on a drained run of this scraper to end: they hold its lock until then."""
        for group in self._groups:
            is_same = group.scraper == scraper and group.is_working
            if is_same and not (await self._queue.stats(group.run_id)).remaining:
                await group.wait(END_TIMEOUT)

    def stop(self, run_id: str) -> int:
        """Let the workers of a run finish their running tasks and end; return how many there are."""
        stopped = self.count(run_id)
        for group in self._groups:
            if group.run_id == run_id:
                group.stop()
        return stopped

    async def close(self) -> None:
        """Stop all workers and wait for their end; their running tasks are released."""
        for group in self._groups:
            group.release()
        for group in self._groups:
            await group.wait()
            try:
                await group.close()
            except ShoalError as error:
                log.error("Stopping the workers of run %s: %s", group.run_id, error)
        self._groups = []

    def _forget_ended(self) -> None:
        for group in self._groups:
            if not group.is_working and group.failure:
                self._failed = {**self._failed, group.run_id: group}
        # The metrics of workers that have ended can be read until the app is closed.
        self._groups = [group for group in self._groups if group.is_working or group.has_metrics]
        for run_id in list(self._failed)[:-MAX_FAILURES]:
            del self._failed[run_id]
