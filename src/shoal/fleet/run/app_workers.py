"""Workers that a program starts on a run; they run while its app is open."""

import asyncio
import logging
import os
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

from shoal.core.errors import DutyFailed, QueueError, ShoalError
from shoal.core.model import Run
from shoal.core.redact import redactor
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.run.launch import FINISH_TIMEOUT, open_logs, open_pool, warn_in
from shoal.fleet.run.pool import WorkerPool
from shoal.fleet.run.retention import apply_keep
from shoal.fleet.store_checks import checked_store
from shoal.fleet.telemetry.setup import metrics_of, update_metrics
from shoal.queue.contract import Queue
from shoal.worker.background import failure_of
from shoal.worker.secrets import all_secrets

log = logging.getLogger(__name__)
END_TIMEOUT = timedelta(seconds=10)
DUTY = "Supervising the workers"


class AppWorkers:
    """Runs workers on a run until it is drained or the context ends."""

    def __init__(self, queue: Queue, run: Run, job: Job, lock: ScraperLock) -> None:
        self._queue, self._run, self._job, self._lock = queue, run, job, lock
        self._pool: WorkerPool | None = None
        self._task: asyncio.Task[Any] | None = None
        self._telemetry = AsyncExitStack()
        self._error_was_raised = False
        self._failures: list[str] = []

    async def __aenter__(self) -> None:
        queue, job, run = self._queue, self._job, self._run
        async with AsyncExitStack() as stack:
            logs = stack.enter_context(open_logs(job, run))
            await stack.enter_async_context(checked_store(queue, warn_in(logs, log.warning)))
            self._pool = open_pool(queue, job, run, logs, lock=self._lock)
            metrics = await stack.enter_async_context(metrics_of(job.metrics, self._pool, log.info))
            if job.metrics:
                await stack.enter_async_context(update_metrics(metrics, queue, run))
            await self._lock.__aenter__()  # held from now on, not only once the task starts
            self._task = asyncio.create_task(self._work(self._pool))
            self._task.add_done_callback(self._log_failure)
            self._telemetry = stack.pop_all()

    async def __aexit__(self, *exc: object) -> None:
        assert self._pool is not None and self._task is not None
        async with self._telemetry:
            self.release()
            with suppress(QueueError):
                await asyncio.wait([self._task])
                if not self._error_was_raised:
                    self._check_task()

    def check(self) -> None:
        """Raise the error that ended the workers, if there was one: nothing may wait for them any longer."""
        self._check_task()
        if self._failures:
            raise ShoalError(f"The workers of run {self._run.id} have stopped: {self._failures[0]}")

    def _check_task(self) -> None:
        error = failure_of(self._task) if self._task and self._task.done() else None
        if error:
            self._error_was_raised = True
            raise error if isinstance(error, ShoalError) else DutyFailed(DUTY, error) from error

    @property
    def is_working(self) -> bool:
        """Whether the workers are still running."""
        return self._task is not None and not self._task.done()

    @property
    def is_stopping(self) -> bool:
        """Whether the workers were told to stop and have not ended yet."""
        return self.is_working and self._pool is not None and self._pool.stops > 0

    @property
    def run_id(self) -> str:
        """The run they work on."""
        return self._run.id

    @property
    def workers(self) -> int:
        """How many workers were started."""
        return self._job.workers

    @property
    def failure(self) -> str:
        """Why the workers ended early; empty if they did not."""
        error = failure_of(self._task) if self._task and self._task.done() else None
        return str(error) if error else "\n".join(self._failures)

    def stop(self) -> None:
        """Let the workers finish their running tasks and end; after a while the tasks are released."""
        assert self._pool is not None
        if self.is_working and not self._pool.stops:
            self._pool.stop()
            asyncio.get_running_loop().call_later(FINISH_TIMEOUT.total_seconds(), self.release)

    def release(self) -> None:
        """Let the workers end as soon as they can; their running tasks are released."""
        assert self._pool is not None
        while self.is_working and self._pool.stops < 2:
            self._pool.stop()

    async def wait_if_drained(self, scraper: str) -> None:
        """Wait for workers on a drained run of this scraper to end: they hold its lock until then."""
        if self._task is None or self._task.done() or self._job.scraper.name != scraper:
            return
        if not (await self._queue.stats(self._run.id)).remaining:
            await asyncio.wait([self._task], timeout=END_TIMEOUT.total_seconds())

    def _log_failure(self, task: asyncio.Task[Any]) -> None:
        if error := failure_of(task):
            log.error("%s. Run %s has no more workers here.", DutyFailed(DUTY, error), self._run.id)

    async def _work(self, pool: WorkerPool) -> None:
        try:
            ending = await pool.run()
            redact = redactor(all_secrets(self._job.queue_url, self._job.scraper.settings, os.environ))
            self._failures = [redact(failure) for failure in ending.failures]  # with lines of their output
            for failure in ending.failures:
                log.error("Could not continue run %s: %s", self._run.id, failure)
            if not pool.stops:
                await apply_keep(self._queue, self._job.scraper, self._run, log.info)
        finally:
            await self._lock.__aexit__(None, None, None)
