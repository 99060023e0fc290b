"""Pools of one worker in this process: in the caller's event loop, or in the terminal to debug its steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shoal.core.events import Level
from shoal.core.model import Run
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.job import Job
from shoal.fleet.run.pool import PoolExit, WorkerPool
from shoal.queue.contract import Queue
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.process.inline import DebugWorker, InlineWorker


@contextmanager
def temporary_queue() -> Iterator[str]:
    """Yield the URL of an embedded queue that is deleted afterwards."""
    with TemporaryDirectory(prefix="shoal-") as folder:
        yield f"sqlite:///{folder}/queue.db"


class InlinePool(WorkerPool):
    """Works on a run here; unlike a worker process, this one is not replaced and raises its error."""

    def __init__(
        self, queue: Queue, job: Job, run: Run, *, is_held: Callable[[], bool] | None = None, **options: Any
    ) -> None:
        super().__init__(queue, job, run, **options)
        self._worker = self._open_worker(queue, job, run)
        self._worker.is_held = is_held

    def _open_worker(self, queue: Queue, job: Job, run: Run) -> InlineWorker:
        return InlineWorker(queue, self._config, run, job.scraper)

    def _config_for(self, job: Job, run: Run) -> WorkerConfig:
        return msgspec.structs.replace(job.worker_config(run), worker_id=new_worker_id())

    @property
    def is_in_step(self) -> bool:
        """Whether the code of a step is running on the event loop at this moment."""
        return self._worker.is_in_step

    async def _run_slots(self, ending: PoolExit) -> None:
        worker = self._supervisors[0] = self._worker  # type: ignore[assignment]
        try:
            if not self.stops:
                ending.reasons.append(await self._worker.run())
        finally:
            del self._supervisors[0]
            self._past += worker.tally
        if self._worker.quit:
            raise self._worker.quit


class DebugPool(InlinePool):
    """Works on a run here, one task at a time; the first error of a step ends it, and can be looked at."""

    def _open_worker(self, queue: Queue, job: Job, run: Run) -> InlineWorker:
        return DebugWorker(queue, self._config, run, job.scraper, say=self._on_event)

    def _config_for(self, job: Job, run: Run) -> WorkerConfig:
        return msgspec.structs.replace(
            super()._config_for(job, run),
            concurrency=1,
            batch=1,
            sharing=None,
            listening=None,
            log_level=Level.OFF,
            measure=False,
            trace=False,
        )

    @property
    def has_failed(self) -> bool:
        """Whether a step has ended the work with an error."""
        return isinstance(self._worker, DebugWorker) and self._worker.has_failed
