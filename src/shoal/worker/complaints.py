"""Which hosts are slowed, told to the whole fleet, so that whoever has success with one lets it recover.

That a slowed host is asked less often is the queue's doing, at once and for everybody. This is about the way
back: the worker that a host complained to may be gone, or may never be given that host again.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import QueueError
from shoal.core.model import Note
from shoal.queue.contract import Queue
from shoal.worker.manners import Manners

TOPIC = "slowed hosts"
EVERY = 5.0  # seconds
KEEP = timedelta(days=1)


class Complaints:
    """Tells the fleet what this worker knows of slowed hosts, and the worker what the fleet does."""

    def __init__(self, queue: Queue, manners: Manners) -> None:
        self._queue, self._manners = queue, manners

    async def run(self) -> None:
        """Exchange news until cancelled."""
        while True:
            with suppress(QueueError):
                await self.exchange()
            await asyncio.sleep(EVERY)

    async def exchange(self) -> None:
        """Exchange news once."""
        news = self._manners.news()
        if news:
            values = {host: _written(delay) for host, delay in news.items()}
            await self._queue.write_notes(TOPIC, values, ttl=KEEP)
        known = await self._queue.notes(TOPIC)
        self._manners.hear({host: delay for host, note in known.items() if (delay := _read(note))})


def _written(delay: timedelta | None) -> bytes | None:
    return None if delay is None else str(delay.total_seconds()).encode()


def _read(note: Note) -> timedelta | None:
    try:
        return timedelta(seconds=float(note.value))
    except (ValueError, OverflowError):
        return None
