"""What links of one kind have cost, told to the whole fleet: a trap costs all of it about as much as one."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import QueueError
from shoal.queue.contract import Queue
from shoal.scrape.gate import Gate

EVERY = 5.0  # seconds
MOST_KINDS = 20  # at a time
TRIES = 5
KEEP = timedelta(days=1)


class Spending:
    """Tells the fleet what this worker has spent on kinds of links, and the worker what the fleet has."""

    def __init__(self, queue: Queue, gate: Gate, run_id: str) -> None:
        self._queue, self._gate, self._topic = queue, gate, f"spent on links {run_id}"
        gate.share_by(run_id.encode()[:64])

    async def run(self) -> None:
        """Exchange news until cancelled."""
        while True:
            await asyncio.sleep(EVERY * random.uniform(0.8, 1.2))  # not all at once
            with suppress(QueueError):
                await self.exchange()

    async def exchange(self) -> None:
        """Exchange news once; what others were quicker with, again and again, waits for the next time."""
        kinds = self._gate.worth_telling(MOST_KINDS)
        for _ in range(TRIES):
            if kinds:
                kinds = await self._exchange(kinds)

    async def _exchange(self, kinds: list[str]) -> list[str]:
        """Hear and tell of these kinds, and return those that others have written at the same time."""
        known = await self._queue.notes(self._topic, kinds)
        news = self._gate.exchange({kind: known[kind].value if kind in known else None for kind in kinds})
        missed = []
        for kind, spent in news.items():
            stamp = known[kind].stamp if kind in known else None
            if not await self._queue.swap_note(self._topic, kind, spent, stamp=stamp, ttl=KEEP):
                missed.append(kind)
        return missed
