"""A caller that is cancelled during a call stops there, whatever the driver is doing."""

import asyncio

from shoal.queue.contract import Queue
from tests.conformance.helpers import pages, start

ROUNDS = 10
MAX_DELAY = 0.012  # seconds; calls of every backend are running by then


async def test_a_caller_who_is_cancelled_stops(queue: Queue) -> None:
    run = await start(queue, *pages(50))

    async def look() -> None:
        while True:
            await queue.stats(run.id)
            await queue.notes("anything")
            await asyncio.sleep(0)

    async def work() -> None:
        while True:
            await queue.claim("worker", run_id=run.id, limit=3)
            await asyncio.sleep(0)

    for number in range(ROUNDS):
        callers = [asyncio.create_task(call()) for call in (look, look, work, work)]
        await asyncio.sleep(MAX_DELAY * number / ROUNDS)
        for caller in callers:
            caller.cancel()
        _, going_on = await asyncio.wait(callers, timeout=20)
        assert not going_on
    assert (await queue.stats(run.id)).tasks == 50
