"""Outcomes on their way to the queue, in batches."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from shoal.core.errors import InvalidInput, QueueUnavailable
from shoal.core.model import Bury, Fate, Outcome
from shoal.queue.contract import Queue

BATCH = 100
LINGER = 0.05  # seconds in which outcomes gather while other tasks are in hand
AGAIN_AFTER = 2.0

OnSettled = Callable[[Sequence[Outcome], Sequence[Fate]], None]


class Settlements:
    """Settles outcomes a batch at a time; while one batch is on its way the next one gathers."""

    def __init__(self, queue: Queue, on_settled: OnSettled) -> None:
        self._queue, self._on_settled = queue, on_settled
        self._waiting: list[Outcome] = []
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self.hurry = False  # what an outcome frees is waited for, so that it must not wait for company

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, outcome: Outcome) -> None:
        """Hand in an outcome."""
        self._waiting.append(outcome)
        self._some.set()
        if self.hurry or len(self._waiting) >= BATCH:
            self._full.set()
        if len(self._waiting) >= 20 * BATCH:
            self._room.clear()

    def flush(self) -> None:
        """Settle what is there without waiting for more."""
        self._full.set()

    async def room(self) -> None:
        """Wait until the queue has caught up, so that outcomes do not pile up in memory."""
        await self._room.wait()

    def close(self) -> None:
        """Settle the rest and end `run`."""
        self._closing = True
        self._some.set()
        self._full.set()

    async def run(self) -> None:
        """Settle until closed."""
        while True:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._full.wait()
            await self._settle_waiting()
            if self._closing and not self._waiting:
                return

    async def _settle_waiting(self) -> None:
        self._some.clear()
        self._full.clear()
        batch, self._waiting = self._waiting, []
        self._room.set()
        if self._closing:
            self._some.set()
            self._full.set()
        for start in range(0, len(batch), 5 * BATCH):
            await self._settle(batch[start : start + 5 * BATCH])

    async def _settle(self, batch: Sequence[Outcome]) -> None:
        while True:
            try:
                fates = await self._queue.settle(batch)
            except QueueUnavailable:
                # A late settlement is refused by its token, so that asking again can do no harm.
                await asyncio.sleep(AGAIN_AFTER)
            except InvalidInput as error:
                await self._apart(batch, error)
                return
            else:
                self._on_settled(batch, fates)
                return

    async def _apart(self, batch: Sequence[Outcome], error: InvalidInput) -> None:
        # One outcome carries what cannot be stored, and none of its batch was settled.
        if len(batch) == 1:
            batch = [Bury(batch[0].lease, error)]
            await self._settle(batch)
            return
        for outcome in batch:
            await self._settle([outcome])
