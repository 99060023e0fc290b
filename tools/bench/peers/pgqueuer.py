"""pgqueuer: batches of a hundred over asyncpg, all tables logged, its own autovacuum settings."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

import asyncpg

from tools.bench.child import Gate
from tools.bench.pages import HOSTS, url
from tools.bench.workload import BATCH

INSERTS = 1_000
ENTRYPOINT = "noop"
LAST_WAIT = timedelta(seconds=0.5)  # how long a drained worker waits for more before it ends


class Worker:
    """A pgqueuer with one entrypoint that does nothing but count; notes when it last settled."""

    def __init__(self, driver: Any) -> None:
        # Typed as anything: types are checked without the peers, which only the benchmark installs.
        pgqueuer: Any = import_module("pgqueuer")
        self._pgq = pgqueuer.PgQueuer(driver)
        self._pgq.entrypoint(ENTRYPOINT)(self._noop)
        self._log_jobs = self._pgq.qm.queries.log_jobs
        self._pgq.qm.queries.log_jobs = self._settle
        self.done = 0
        self.ended = 0.0

    async def run(self) -> None:
        """Work until the queue is empty."""
        modes: Any = import_module("pgqueuer.types").QueueExecutionMode
        await self._pgq.run(batch_size=BATCH, mode=modes.drain, dequeue_timeout=LAST_WAIT)

    async def _noop(self, job: Any) -> None:
        self.done += 1

    async def _settle(self, jobs: list[Any]) -> None:
        await self._log_jobs(jobs)
        self.ended = time.monotonic()


async def load(gate: Gate, *, number: int, address: str, jobs: int) -> dict[str, Any]:
    """Make the jobs."""
    async with _driver(address, "connection") as driver:
        queries = import_module("pgqueuer").Queries(driver)
        await queries.install()
        await queries.optimize_autovacuum()
        await gate()
        began = time.monotonic()
        for first in range(0, jobs, INSERTS):
            payloads = [url(n, HOSTS).encode() for n in range(first, min(first + INSERTS, jobs))]
            await queries.enqueue([ENTRYPOINT] * len(payloads), payloads, [0] * len(payloads))
        return {"seconds": time.monotonic() - began}


async def work(gate: Gate, *, number: int, address: str, driver: str, managers: int) -> dict[str, Any]:
    """Do jobs until none is left."""
    async with _drivers(address, driver, managers) as drivers:
        workers = [Worker(one) for one in drivers]
        await gate()
        began = time.monotonic()
        await asyncio.gather(*(worker.run() for worker in workers))
    ended = max(worker.ended for worker in workers)
    return {"tasks": sum(worker.done for worker in workers), "began": began, "ended": ended}


@asynccontextmanager
async def _drivers(address: str, kind: str, count: int) -> AsyncIterator[list[Any]]:
    if not count:
        yield []
        return
    async with _driver(address, kind) as first, _drivers(address, kind, count - 1) as others:
        yield [first, *others]


@asynccontextmanager
async def _driver(address: str, kind: str) -> AsyncIterator[Any]:
    pgqueuer: Any = import_module("pgqueuer")
    if kind == "pool":
        async with asyncpg.create_pool(address, min_size=5, max_size=20) as pool:
            yield pgqueuer.AsyncpgPoolDriver(pool)
        return
    connection = await asyncpg.connect(address)
    try:
        yield pgqueuer.AsyncpgDriver(connection)
    finally:
        await connection.close()
