"""Measures how fast a queue is from here: fills, drains and purges a run of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.model import ZERO, Done, Lease, Run, RunSettings, Task
from shoal.queue.contract import Queue, QueueReports, WorkQueue

BATCH = 100
ROUND_TRIPS = 50
HOSTS = 1_000
# `.invalid` is reserved for names that do not exist.
URL = "http://host-{host}.invalid/catalogue/page-{number}.html"
IDLE_DELAY = timedelta(seconds=0.05)  # after an empty claim


class Figure(msgspec.Struct, frozen=True):
    """One measurement, as `shoal bench --json` reports it."""

    what: str
    figure: float
    unit: str


async def measure(queue: Queue, *, tasks: int, loops: int) -> AsyncIterator[Figure]:
    """Measure the operations of a queue in a run that is always purged at the end."""
    run = await queue.start_run("bench", settings=RunSettings(host_delay=ZERO, per_host=8))
    try:
        yield Figure("round trip", round(await _round_trip(queue, run), 2), "ms")
        seconds = await _timed(lambda: queue.enqueue(run.id, _pages(tasks)))
        yield Figure("enqueue, new", round(tasks / seconds, 2), "tasks/s")
        seconds = await _timed(lambda: queue.enqueue(run.id, _pages(tasks)))
        yield Figure("enqueue, known", round(tasks / seconds, 2), "tasks/s")
        claimers = [_Claimer(queue, run, f"bench-{number}") for number in range(loops)]
        seconds = await _timed(lambda: asyncio.gather(*(claimer.work() for claimer in claimers)))
        yield Figure("claim and settle", round(tasks / seconds, 2), "tasks/s")
        waits = sorted(wait for claimer in claimers for wait in claimer.waits)
        yield Figure("a claim of 100, median", round(1000 * waits[len(waits) // 2], 2), "ms")
        yield Figure("a claim of 100, one in a hundred", round(1000 * waits[len(waits) * 99 // 100], 2), "ms")
    finally:
        await queue.purge(run.id)


class _Claimer:
    """A simulated worker: its tasks take no time and yield one small item each."""

    def __init__(self, queue: WorkQueue, run: Run, worker_id: str) -> None:
        self._queue, self._run, self._me = queue, run, worker_id
        self.waits: list[float] = []

    async def work(self) -> None:
        """Claim and settle until the run is drained; the next claim overlaps with the last settle."""
        settling = asyncio.create_task(asyncio.sleep(0))
        while True:
            began = time.perf_counter()
            grant = await self._queue.claim(self._me, run_id=self._run.id, limit=BATCH)
            self.waits.append(time.perf_counter() - began)
            await settling
            if grant.drained:
                return
            settling = asyncio.create_task(self._settle(grant.leases))

    async def _settle(self, leases: Sequence[Lease]) -> None:
        if not leases:
            await asyncio.sleep(IDLE_DELAY.total_seconds())
            return
        await self._queue.settle([Done(lease, items=[{"url": lease.task.url}]) for lease in leases])


async def _round_trip(queue: QueueReports, run: Run) -> float:
    """Return the median time of the simplest query, in milliseconds."""
    waits = sorted([await _timed(lambda: queue.run(run.id)) for _ in range(ROUND_TRIPS)])
    return 1000 * waits[len(waits) // 2]


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _pages(count: int) -> Iterator[Task]:
    return (Task(url=URL.format(host=number % HOSTS, number=number)) for number in range(count))
