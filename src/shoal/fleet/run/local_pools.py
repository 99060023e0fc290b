"""Workers that a long-lived program starts on its runs, and stops run by run; the web server does."""

import asyncio
import logging
from dataclasses import replace

from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.model import Run
from shoal.fleet.dead_workers import release_leases_of
from shoal.fleet.job import Job
from shoal.fleet.run.app_workers import AppWorkers
from shoal.fleet.run.launch import lock_of
from shoal.fleet.run.lifecycle import reopen
from shoal.queue.contract import Queue

log = logging.getLogger(__name__)
MAX_FAILURES = 50  # runs whose last failure is remembered


class LocalPools:
    """The workers of this process by run; they end when their run is drained, or at `close`."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._groups: list[AppWorkers] = []
        self._failures: dict[str, str] = {}  # by run id, the newest last
        self.starting = asyncio.Lock()  # held while the number that may still start is checked

    def count(self, run_id: str | None = None) -> int:
        """Return how many workers run here, on one run or on all."""
        self._forget_ended()
        return sum(group.workers for group in self._groups if run_id in (None, group.run_id))

    def is_stopping(self, run_id: str) -> bool:
        """Whether workers of a run were told to stop, and are finishing their tasks."""
        self._forget_ended()
        return any(group.is_stopping for group in self._groups if group.run_id == run_id)

    def failure(self, run_id: str) -> str:
        """Return why the last workers of a run ended early; empty if they did not."""
        self._forget_ended()
        return self._failures.get(run_id, "")

    async def start(self, run: Run, job: Job, workers: int) -> None:
        """Start workers on a run, beside those that work on it already, here or elsewhere.

        Raises InvalidInput if it has no task left, RunConflict if it was cancelled, and ScraperBusy.
        """
        run = await reopen(self._queue, await self._queue.run(run.id), job.scraper)
        if not (await self._queue.stats(run.id)).remaining:
            raise InvalidInput(f"Run {run.id} has no tasks left, so workers would have nothing to do.")
        await release_leases_of(self._queue, run)
        job = replace(job, workers=workers, joins=True)
        group = AppWorkers(self._queue, run, job, lock_of(self._queue, job, run.id))
        await group.__aenter__()
        self._failures.pop(run.id, None)
        self._groups.append(group)

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
            try:
                await group.__aexit__(None, None, None)
            except ShoalError as error:
                log.error("Stopping the workers of run %s: %s", group.run_id, error)
        self._groups = []

    def _forget_ended(self) -> None:
        for group in self._groups:
            if not group.is_working and group.failure:
                self._failures = {**self._failures, group.run_id: group.failure}
        self._groups = [group for group in self._groups if group.is_working]
        for run_id in list(self._failures)[:-MAX_FAILURES]:
            del self._failures[run_id]
