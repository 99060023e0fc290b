"""Claims timed one by one, in a queue that stays as full as it was."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Any

from shoal.core.model import RunSettings
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tools.bench.loading import load
from tools.bench.pages import HOSTS
from tools.bench.report import percentile
from tools.bench.stores import Store
from tools.bench.talk import say
from tools.bench.workload import BATCH, POLITE, RUN_ID, done_and_replaced

WARM_UP = 20  # full claims in a row
GIVE_UP = 2_000  # claims


class Cell:
    """A run of a given size whose claims are timed; what is claimed is settled and replaced."""

    def __init__(self, queue: Queue, address: str, tasks: int, hosts: int) -> None:
        self.queue = queue
        self.address = address
        self._hosts = hosts
        self._stride = -(-tasks // hosts) * hosts
        self._times: list[float] = []
        self._sizes: list[int] = []

    async def step(self) -> int:
        """Time one claim, settle it, and return how many tasks it gave."""
        began = time.perf_counter()
        grant = await self.queue.claim("bench", run_id=RUN_ID, limit=BATCH)
        self._times.append(time.perf_counter() - began)
        self._sizes.append(len(grant.leases))
        await self.queue.settle(done_and_replaced(grant.leases, self._hosts, self._stride))
        return len(grant.leases)

    async def warm_up(self) -> None:
        """Claim until several claims in a row were full, and forget them."""
        full = 0
        for _ in range(GIVE_UP):
            full = full + 1 if await self.step() == BATCH else 0
            if full == WARM_UP:
                break
        self._times.clear()
        self._sizes.clear()

    def summary(self) -> dict[str, Any]:
        """Return the claims' times in milliseconds, and how full they were."""
        times = [seconds * 1_000 for seconds in self._times]
        return {
            "claims": len(times),
            "p50_ms": percentile(times, 0.5),
            "p99_ms": percentile(times, 0.99),
            "max_ms": max(times),
            "tasks_per_claim": fmean(self._sizes),
        }


@asynccontextmanager
async def cell(
    store: Store, tasks: int, *, hosts: int = HOSTS, settings: RunSettings = POLITE
) -> AsyncIterator[Cell]:
    """Lend a loaded cell."""
    async with store.room() as address:
        await load(store, address, tasks, hosts=hosts, settings=settings)
        async with open_queue(address) as queue:
            yield Cell(queue, address, tasks, hosts)


async def compare(cells: Sequence[Cell], claims: int) -> list[dict[str, Any]]:
    """Time so many claims of every cell in turn, so that each sees the same weather."""
    for each in cells:
        await each.warm_up()
    for _ in range(claims):
        for each in cells:
            await each.step()
    summaries = [each.summary() for each in cells]
    for summary in summaries:
        _warn_if_short(summary["tasks_per_claim"])
    return summaries


async def together(calls: Sequence[Any], at_once: int = 32) -> None:
    """Await many calls, a few at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(call: Any) -> None:
        async with gate:
            await call

    await asyncio.gather(*(one(call) for call in calls))


def _warn_if_short(size: float) -> None:
    if size < 0.95 * BATCH:
        say(f"note: a claim gave {size:.0f} of {BATCH} tasks on average")
