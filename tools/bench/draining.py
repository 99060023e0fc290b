"""Claimers at work: each asks for the next batch while the last one is being settled."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from shoal.core.model import SECOND, Done, Fate, Grant, Lease
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tools.bench.child import Gate
from tools.bench.children import run_processes
from tools.bench.workload import BATCH, RUN_ID, done

CLAIMER = f"{__name__}:claimer"
LONGEST_NAP = 0.05  # seconds


async def drain(address: str, claimers: int, most: int | None = None) -> float:
    """Have so many processes empty the run, or take `most` tasks each, and return the tasks per second."""
    results = await run_processes(claimers, CLAIMER, address=address, most=most)
    return pace(results)


def pace(results: Sequence[dict[str, Any]]) -> float:
    """Return the tasks per second of processes that worked side by side."""
    tasks = sum(result["tasks"] for result in results)
    busy = [result for result in results if result["tasks"]]
    return float(tasks / (max(one["ended"] for one in busy) - min(one["began"] for one in busy)))


async def claimer(
    gate: Gate, *, number: int, address: str, most: int | None = None, loops: int = 1
) -> dict[str, Any]:
    """Claim and settle, in so many loops at once, until the run is drained or each has taken `most` tasks."""
    async with open_queue(address) as queue:
        await gate()
        workers = [Claimer(queue, f"claimer-{number}-{loop}") for loop in range(loops)]
        results = await asyncio.gather(*(worker.work(most) for worker in workers))
    return {
        "tasks": sum(result["tasks"] for result in results),
        "began": min(result["began"] for result in results),
        "ended": max(result["ended"] for result in results),
    }


class Claimer:
    """One worker whose tasks take no time."""

    def __init__(self, queue: Queue, worker_id: str) -> None:
        self._queue = queue
        self._worker_id = worker_id
        self._taken = 0
        self._ended = 0.0

    async def work(self, most: int | None) -> dict[str, Any]:
        """Return how many tasks were settled, and between which moments of the machine's clock."""
        began = time.monotonic()
        settling = asyncio.create_task(asyncio.sleep(0))
        while most is None or self._taken < most:
            grant = await self._queue.claim(self._worker_id, run_id=RUN_ID, limit=BATCH)
            await settling
            if grant.drained:
                break
            self._taken += len(grant.leases)
            settling = asyncio.create_task(self._settle(grant.leases) if grant.leases else _nap(grant))
        await settling
        return {"tasks": self._taken, "began": began, "ended": self._ended}

    def make_outcomes(self, leases: Sequence[Lease]) -> list[Done]:
        """Complete every task with an item."""
        return done(leases)

    async def _settle(self, leases: Sequence[Lease]) -> None:
        fates = await self._queue.settle(self.make_outcomes(leases))
        assert set(fates) == {Fate.ACCEPTED}
        self._ended = time.monotonic()


async def _nap(grant: Grant) -> None:
    """Wait as long as the queue advises, within reason."""
    due = LONGEST_NAP if grant.next_due is None else grant.next_due / SECOND
    await asyncio.sleep(min(due, LONGEST_NAP))
