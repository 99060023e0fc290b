"""One process of the fleet: some machines, each with its queue, its pool and its workers.

The first process is the probe: few workers, each with a queue of its own, as a real one has. Their claims
take what those of a real worker take, because the process has little else to do. The others are the load.
They stand for machines that are not there, so they yield to the server and to the probe.
"""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from shoal.core.errors import QueueError
from shoal.queue.open import open_queue
from shoal.worker.process.main import allow_many_files
from tools.bench.child import Gate
from tools.bench.fleet.workers import FleetCounts, SimulatedPool, make_tools

SIMULATE = f"{__name__}:simulate"
AT_ONCE = 8  # machines that open their queues
SAMPLE_INTERVAL = 0.5  # seconds
PROBE = 0  # the number of the process
NICENESS = 10  # of the others


async def simulate(
    gate: Gate,
    *,
    number: int,
    address: str,
    run_id: str,
    workers: Sequence[int],
    per_machine: int,
    stagger: float,
    seconds: float,
    is_rested: bool,
) -> dict[str, Any]:
    """Work for so long, and return the claims, and at which moments how many tasks were settled.

    `workers` are those of every process, by their numbers.
    """
    allow_many_files()
    is_probe, mine = number == PROBE, workers[number]
    if not is_probe:
        os.nice(NICENESS)
    counts, tools, opening = FleetCounts(), make_tools(), asyncio.Semaphore(AT_ONCE)
    stack = AsyncExitStack()  # never closed: the process is killed once it has reported

    async def open_machine(count: int) -> SimulatedPool:
        async with opening:
            queue = await stack.enter_async_context(open_queue(address))
            own = [await stack.enter_async_context(open_queue(address)) for _ in range(count * is_probe)]
            return SimulatedPool(queue, await queue.run(run_id), own or [queue] * count, counts, tools)

    sizes = [min(per_machine, mine - first) for first in range(0, mine, per_machine)]
    pools = await asyncio.gather(*(open_machine(size) for size in sizes))
    await gate()
    began = time.monotonic()
    launch = partial(_launch, counts=counts, stagger=stagger, is_rested=is_rested)
    launched = [asyncio.create_task(launch(pool)) for pool in pools]
    settled, lags = [], []
    while (now := time.monotonic()) < began + stagger + seconds:
        done, _ = await asyncio.wait(launched, timeout=SAMPLE_INTERVAL, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        settled.append((time.monotonic(), sum(pool.settled for pool in pools)))
        lags.append((now, settled[-1][0] - now - SAMPLE_INTERVAL))
    return {
        "began": began,
        "claims": counts.claims,
        "settled": settled,
        "lags": lags,
        "failures": counts.failures,
    }


async def _launch(pool: SimulatedPool, *, counts: FleetCounts, stagger: float, is_rested: bool) -> None:
    # Machines are started at different moments, so that their periodic duties do not coincide.
    await asyncio.sleep(random.uniform(0, stagger / 4))
    while True:
        try:
            await pool.launch(stagger=0.75 * stagger, is_rested=is_rested)
        except* QueueError:
            counts.failures += pool.count
