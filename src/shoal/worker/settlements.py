"""Outcomes on their way to the queue, in batches."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from shoal.core.model import MINUTE, Outcome
from shoal.queue.contract import Queue
from shoal.worker.settling import OnSettled, Settler

BATCH = 100
MOST_WAITING = 20 * BATCH
LINGER = 0.05  # seconds in which outcomes gather while other tasks are in hand


class Settlements:
    """Settles outcomes a batch at a time; while one batch is on its way the next one gathers."""

    def __init__(self, queue: Queue, on_settled: OnSettled, *, give_up_after: timedelta = MINUTE) -> None:
        self._settler = Settler(queue, on_settled, give_up_after=give_up_after)
        self._waiting: list[Outcome] = []
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = self._stopping = False
        self.hurry = False  # what an outcome frees is waited for, so that it must not wait for company

    def __len__(self) -> int:
        return len(self._waiting) + len(self._settler)

    def put(self, outcome: Outcome) -> None:
        """Hand in an outcome."""
        self._waiting.append(outcome)
        self._some.set()
        if self.hurry or len(self._waiting) >= BATCH:
            self._full.set()
        self._look_at_room()

    def flush(self) -> None:
        """Settle what is there without waiting for more."""
        self._full.set()

    async def room(self) -> None:
        """Wait until the queue has caught up, so that outcomes do not pile up in memory, or until `stop`."""
        await self._room.wait()

    def stop(self) -> None:
        """Hold up nobody for want of room any more: nothing more will be claimed."""
        self._stopping = True
        self._look_at_room()
        self.flush()

    def close(self) -> None:
        """Settle the rest and end `run`."""
        self._closing = True
        self._some.set()
        self._full.set()

    async def run(self) -> None:
        """Settle until closed; raises SettleFailed when an outcome can be neither settled nor buried."""
        while True:
            await self._wait()
            self._some.clear()
            self._full.clear()
            batch, self._waiting = self._waiting, []
            self._look_at_room()
            await self._settler.settle(batch)
            self._look_at_room()
            if self._closing:
                self._some.set()
                self._full.set()
                if not len(self):
                    return

    async def _wait(self) -> None:
        """Wait until outcomes have gathered, or some are to be tried again."""
        retry_at = self._settler.retry_at
        with suppress(TimeoutError):
            async with asyncio.timeout_at(retry_at):
                if self._settler.is_down or (self._closing and retry_at):
                    await asyncio.Event().wait()  # for the next try, with all that has come until then
                await self._some.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        await self._full.wait()

    def _look_at_room(self) -> None:
        if len(self) < MOST_WAITING or self._stopping:
            self._room.set()
        else:
            self._room.clear()
