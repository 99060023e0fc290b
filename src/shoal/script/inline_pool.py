"""The pool of one worker in this process and event loop."""

from collections.abc import Callable
from typing import Any

import msgspec

from shoal.core.model import Run
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.run.pool import PoolExit, WorkerPool
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.process.inline import InlineWorker


class InlinePool(WorkerPool):
    """Works on a run here; unlike a worker process, this one is not replaced and raises its error."""

    def __init__(
        self,
        queue: Queue,
        config: WorkerConfig,
        count: int,
        *,
        run: Run,
        scraper: Scraper,
        is_held: Callable[[], bool] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(queue, config, count, **options)
        config = msgspec.structs.replace(config, worker_id=new_worker_id())
        self._worker = InlineWorker(queue, config, run, scraper, is_held=is_held)

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
