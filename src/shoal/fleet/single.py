"""The lock of a scraper in single mode: one launcher at a time, whoever and wherever it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from shoal.core.errors import QueueError, ScraperBusy
from shoal.core.model import Run, WorkerStatus
from shoal.fleet.whereabouts import is_dead
from shoal.queue.contract import Queue

STATE = "launcher"
BEAT_EVERY = 3.0
ALIVE = timedelta(seconds=15)


@asynccontextmanager
async def alone(queue: Queue, run: Run, me: str) -> AsyncIterator[None]:
    """Hold the scraper for this launcher; raises ScraperBusy while another one holds it.

    Each launcher makes itself known before it looks who else is there, so of two that come at once at
    least one sees the other: never do both go on.
    """
    await queue.beat(me, run_id=run.id, state=STATE)
    try:
        for other, holder in await _others(queue, run, me):
            raise ScraperBusy(run.scraper, holder.worker_id, other.id)
        beating = asyncio.create_task(_beat(queue, run, me))
        try:
            yield
        finally:
            beating.cancel()
    finally:
        with suppress(QueueError):
            await queue.beat(me, run_id=run.id, state="ended")


async def _beat(queue: Queue, run: Run, me: str) -> None:
    while True:
        await asyncio.sleep(BEAT_EVERY)
        with suppress(QueueError):
            await queue.beat(me, run_id=run.id, state=STATE)


async def _others(queue: Queue, run: Run, me: str) -> list[tuple[Run, WorkerStatus]]:
    runs = {found.id: found for found in await queue.runs() if found.scraper == run.scraper}
    return [
        (runs[worker.run_id], worker)
        for worker in await queue.workers()
        if worker.run_id in runs and worker.worker_id != me and worker.state == STATE and _lives(worker)
    ]


def _lives(worker: WorkerStatus) -> bool:
    # A launcher of this machine that was killed need not be waited for.
    return worker.last_beat <= ALIVE and not is_dead(worker.worker_id)
