"""A partition of a standing run reserved for the calls of one balancer; only that balancer claims from it.

A new partition for every balancer would fill the store with counts. So there is a fixed number of them, and
each is released by its holder, or expires when the holder stops renewing it. The stored names say "desk".
"""

import asyncio
import logging
from contextlib import suppress
from typing import Self

from shoal.core.errors import CallFailed, QueueError
from shoal.core.model import SECOND, Note
from shoal.core.tasks import repeat, restarted, watched
from shoal.queue.contract import SharedNotes

PARTITIONS = 256
RESERVATION_TTL = 15 * SECOND  # without a renewal
RENEW_INTERVAL = 4 * SECOND

log = logging.getLogger(__name__)


class CallPartition:
    """Reserves one partition of a run while it is open."""

    def __init__(self, queue: SharedNotes, run_id: str, holder: str) -> None:
        self._queue, self._topic, self.holder = queue, f"desks {run_id}", holder
        self._note: Note | None = None
        self._renewal: asyncio.Task[None] | None = None
        self.name = ""

    async def __aenter__(self) -> Self:
        await self._reserve()
        duty = restarted("Renewing the partition for calls", self._keep_renewing, log.error)
        self._renewal = watched(asyncio.create_task(duty))
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._renewal is not None
        self._renewal.cancel()
        if self._note:
            with suppress(QueueError):
                await self._queue.swap_note(self._topic, self.name, None, stamp=self._note.stamp)

    async def _reserve(self) -> None:
        taken = await self._queue.notes(self._topic)
        for name in (f"desk-{number}" for number in range(PARTITIONS)):
            if name not in taken and (note := await self._write(name, None)):
                self.name, self._note = name, note
                return
        raise CallFailed(
            f"All {PARTITIONS} partitions for calls are in use. Open fewer connections, and share them"
        )

    async def _keep_renewing(self) -> None:
        await repeat(self._renew_or_reserve, RENEW_INTERVAL, jitter=0)

    async def _renew_or_reserve(self) -> None:
        # A process that slept too long may have lost it to another.
        self._note = await self._write(self.name, self._note.stamp) if self._note else None
        if self._note is None:
            with suppress(CallFailed):  # until another process releases one
                await self._reserve()

    async def _write(self, name: str, stamp: int | None) -> Note | None:
        return await self._queue.swap_note(
            self._topic, name, self.holder.encode(), stamp=stamp, ttl=RESERVATION_TTL
        )
