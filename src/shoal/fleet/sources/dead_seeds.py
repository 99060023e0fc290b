"""Seeds that cannot be queued, stored as dead letters of the run: with their source, text and reason."""

import asyncio

from shoal.core.errors import InvalidTask
from shoal.core.model import MINUTE, Bury, Run, Task
from shoal.discover.source import Refusal
from shoal.fleet.dead_workers import new_worker_id
from shoal.queue.contract import WorkQueue
from shoal.scrape.scraper import INVALID_SEED

BATCH = 500
TRIES, RETRY_DELAY_SECONDS = 20, 0.05  # a broker takes a moment to hand out what was just enqueued


class DeadSeeds:
    """Buries refused seeds in batches.

    A task with an invalid URL cannot be stored. So each becomes a task without a URL, of a step that no
    scraper has, which is claimed here and buried at once. A faster worker buries it with the same error.
    """

    def __init__(self, queue: WorkQueue) -> None:
        self.run: Run | None = None
        self._queue, self._me = queue, new_worker_id()
        self._waiting: list[Refusal] = []

    def add(self, refusal: Refusal) -> None:
        """Add one; `flush` buries it."""
        self._waiting.append(refusal)

    async def flush(self, *, when_many: bool = False) -> None:
        """Bury what was added; with `when_many`, only a full batch."""
        if self.run is None or len(self._waiting) < (BATCH if when_many else 1):
            return
        tasks = [
            Task(step=INVALID_SEED, payload={"where": one.where, "text": one.text, "reason": one.reason})
            for one in self._waiting
        ]
        self._waiting = []
        await self._bury(self.run.id, (await self._queue.enqueue(self.run.id, tasks)).added)

    async def _bury(self, run_id: str, left: int) -> None:
        for _ in range(TRIES):
            while left and (found := await self._claim(run_id)):
                await self._queue.settle(found)
                left -= len(found)
            if not left:
                return
            await asyncio.sleep(RETRY_DELAY_SECONDS)

    async def _claim(self, run_id: str) -> list[Bury]:
        grant = await self._queue.claim(
            self._me, run_id=run_id, limit=BATCH, lease=MINUTE, steps=[INVALID_SEED]
        )
        return [
            Bury(lease, InvalidTask(lease.task, str(lease.task.payload.get("reason"))))
            for lease in grant.leases
        ]
