"""Seeds that cannot be queued, as dead letters of the run: with their place, text and reason."""

import asyncio

from shoal.core.errors import InvalidTask
from shoal.core.model import MINUTE, Bury, Run, Task
from shoal.discover.source import Refusal
from shoal.fleet.whereabouts import new_worker_id
from shoal.queue.contract import Queue
from shoal.scrape.scraper import INVALID_SEED

BATCH = 500
TRIES, TRY_AGAIN = 20, 0.05  # a broker takes a moment to hand out what it was just given


class DeadSeeds:
    """Buries refusals, a batch at a time.

    A task with a URL that is none cannot be stored. So each is a task without one, of a step that no scraper
    has, which is claimed here and buried at once. A worker that is quicker buries it in the same words.
    """

    def __init__(self, queue: Queue) -> None:
        self.run: Run | None = None
        self._queue, self._me = queue, new_worker_id()
        self._waiting: list[Refusal] = []

    def add(self, refusal: Refusal) -> None:
        """Take one in; `flush` buries it."""
        self._waiting.append(refusal)

    async def flush(self, *, when_many: bool = False) -> None:
        """Bury what waits, or only where it is many."""
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
            while left and (found := await self._claimed(run_id)):
                await self._queue.settle(found)
                left -= len(found)
            if not left:
                return
            await asyncio.sleep(TRY_AGAIN)

    async def _claimed(self, run_id: str) -> list[Bury]:
        grant = await self._queue.claim(
            self._me, run_id=run_id, limit=BATCH, lease=MINUTE, steps=[INVALID_SEED]
        )
        return [
            Bury(lease, InvalidTask(lease.task, str(lease.task.payload.get("reason"))))
            for lease in grant.leases
        ]
