"""Filling a queue, and what that costs."""

import time
from collections.abc import Iterator
from typing import Any

from shoal.core.model import RunSettings, Task
from shoal.queue.open import open_queue
from tools.bench.child import Gate
from tools.bench.children import run_processes
from tools.bench.pages import HOSTS
from tools.bench.processes import memory_of
from tools.bench.stores import Store
from tools.bench.workload import POLITE, RUN_ID, mostly_seen, new_tasks, start_run

ENQUEUE = f"{__name__}:enqueue"
ALONE = 20_000  # tasks that are not worth a second process


async def load(
    store: Store, address: str, count: int, *, hosts: int = HOSTS, settings: RunSettings = POLITE
) -> None:
    """Make a run of so many pending tasks."""
    async with open_queue(address) as queue:
        await start_run(queue, settings)
    loaders = store.loaders if count > ALONE else 1
    reports = await run_processes(loaders, ENQUEUE, address=address, count=count // loaders, hosts=hosts)
    assert sum(report["added"] for report in reports) == count
    store.rest(address)


async def enqueue(
    gate: Gate, *, number: int, address: str, count: int, hosts: int = HOSTS, seen: int | None = None
) -> dict[str, Any]:
    """Stream tasks in; with `seen`, nine in ten are among so many that are there already."""
    tasks: Iterator[Task]
    tasks = new_tasks(number * count, count, hosts) if seen is None else mostly_seen(count, seen, hosts)
    async with open_queue(address) as queue:
        await start_run(queue)
        await gate()
        before = memory_of("self")
        began = time.monotonic()
        report = await queue.enqueue(RUN_ID, tasks)
        seconds = time.monotonic() - began
    peak = memory_of("self", "VmHWM")
    return {
        "added": report.added,
        "seconds": seconds,
        "rss_peak": peak / 1e6,
        "rss_growth": (peak - before) / 1e6,
    }
