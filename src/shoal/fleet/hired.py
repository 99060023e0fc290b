"""Workers that a program starts on a run, for as long as it keeps its app open."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any

from shoal.core.errors import DutyFailed, QueueError, ShoalError
from shoal.core.model import Run
from shoal.fleet.crew import Crew
from shoal.fleet.launch import Job, books_of, crew_of
from shoal.fleet.single import ScraperLock
from shoal.fleet.watch import metrics_of, seen_by
from shoal.queue.contract import Queue
from shoal.worker.duties import failure_of

log = logging.getLogger(__name__)
END_TIMEOUT = 10.0  # seconds
DUTY = "Looking after the workers"


class Hired:
    """Has workers on a run until it is drained, or until it is left."""

    def __init__(self, queue: Queue, run: Run, job: Job, lock: ScraperLock) -> None:
        self._queue, self._run, self._job, self._lock = queue, run, job, lock
        self._crew: Crew | None = None
        self._task: asyncio.Task[Any] | None = None
        self._watch = AsyncExitStack()
        self._is_told = False

    async def __aenter__(self) -> None:
        queue, job, run = self._queue, self._job, self._run
        async with AsyncExitStack() as stack:
            logs = stack.enter_context(books_of(job, run))
            self._crew = crew_of(queue, job, run, logs, lock=self._lock)
            metrics = await stack.enter_async_context(metrics_of(job.metrics, self._crew, log.info))
            if job.metrics:
                await stack.enter_async_context(seen_by(metrics, queue, run))
            await self._lock.__aenter__()  # held from now on, and not only when the task begins
            self._task = asyncio.create_task(self._work(self._crew))
            self._task.add_done_callback(self._ended)
            self._watch = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._crew is not None and self._task is not None
        async with self._watch:
            if not self._task.done():
                self._crew.stop()
                self._crew.stop()
            with suppress(QueueError):
                await asyncio.wait([self._task])
                if not self._is_told:
                    self.check()

    def check(self) -> None:
        """Raise what has ended its workers, if that was an error."""
        error = failure_of(self._task) if self._task and self._task.done() else None
        if error:
            self._is_told = True
            raise error if isinstance(error, ShoalError) else DutyFailed(DUTY, error) from error

    @property
    def is_working(self) -> bool:
        """Whether its workers have not ended."""
        return self._task is not None and not self._task.done()

    async def let_go(self, scraper: str) -> None:
        """Wait for workers on a finished run of this scraper to end: they hold its lock until then."""
        if self._task is None or self._task.done() or self._job.scraper.name != scraper:
            return
        if not (await self._queue.stats(self._run.id)).remaining:
            await asyncio.wait([self._task], timeout=END_TIMEOUT)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if error := failure_of(task):
            log.error("%s. Run %s has no workers from here now.", DutyFailed(DUTY, error), self._run.id)

    async def _work(self, crew: Crew) -> None:
        try:
            ending = await crew.run()
            for failure in ending.failures:
                log.error("Could not go on with run %s: %s", self._run.id, failure)
        finally:
            await self._lock.__aexit__(None, None, None)
