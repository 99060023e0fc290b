"""Turns at a host for the requests that steps send themselves: one per gap in the whole fleet."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import NotNow, QueueError
from shoal.core.model import MINUTE, SECOND, ZERO
from shoal.queue.contract import Queue

TOPIC = "request turns"
MAX_HOSTS = 10_000  # whose locks are kept
OUTAGE_WAIT = 10 * SECOND  # until a task is tried again that the queue gave no turn


class HostTurns:
    """Waits until a host may get a request; the tasks of the host wait for the same time after it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._locks: dict[str, asyncio.Lock] = {}

    async def take(self, host: str, gap: timedelta) -> None:
        """Wait for a turn, and use it; raises NotNow if the queue cannot give one."""
        if gap <= ZERO:
            return
        try:
            async with self._lock_of(host):
                await self._take(host, gap)
        except QueueError as error:
            # Not an error of the step, which would be charged an attempt or buried for it.
            raise NotNow(f"no turn at {host} for page.request: {error}", OUTAGE_WAIT) from error
        with suppress(QueueError):
            await self._queue.pause_host(host, gap)

    async def _take(self, host: str, gap: timedelta) -> None:
        while True:
            note = (await self._queue.notes(TOPIC, [host])).get(host)
            if note and note.age < gap:
                await asyncio.sleep((gap - note.age).total_seconds())
            # The note's age is its value; one that another worker has written meanwhile wins.
            stamp = note.stamp if note else None
            if await self._queue.swap_note(TOPIC, host, b"", stamp=stamp, ttl=max(2 * gap, MINUTE)):
                return

    def _lock_of(self, host: str) -> asyncio.Lock:
        if len(self._locks) >= MAX_HOSTS:
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(host, asyncio.Lock())
