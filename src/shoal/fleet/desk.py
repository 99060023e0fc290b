"""A desk: the partition of a standing run that one balancer puts its calls into, and nobody else claims.

A partition of its own for every balancer that ever was would fill the store with their counts. So there is a
fixed number of desks, and each is given up or falls free when its holder is no longer heard of.
"""

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Self

from shoal.core.errors import CallFailed, QueueError
from shoal.core.model import SECOND, Note
from shoal.core.tasks import restarted, watched
from shoal.queue.contract import Queue

DESKS = 256
HELD_FOR = 15 * SECOND  # without a word
SAY_EVERY = 4.0

log = logging.getLogger(__name__)


class Desk:
    """Holds one desk of a run for as long as it is open."""

    def __init__(self, queue: Queue, run_id: str, holder: str) -> None:
        self._queue, self._topic, self.holder = queue, f"desks {run_id}", holder
        self._note: Note | None = None
        self._saying: asyncio.Task[None] | None = None
        self.name = ""

    async def __aenter__(self) -> Self:
        await self._take()
        duty = restarted("Holding the desk for calls", self._say_on, log.error)
        self._saying = watched(asyncio.create_task(duty))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._saying is not None
        self._saying.cancel()
        if self._note:
            with suppress(QueueError):
                await self._queue.swap_note(self._topic, self.name, None, stamp=self._note.stamp)

    async def _take(self) -> None:
        taken = await self._queue.notes(self._topic)
        for name in (f"desk-{number}" for number in range(DESKS)):
            if name not in taken and (note := await self._write(name, None)):
                self.name, self._note = name, note
                return
        raise CallFailed(f"All {DESKS} desks for calls are taken. Make fewer connections, and share them")

    async def _say_on(self) -> None:
        while True:
            await asyncio.sleep(SAY_EVERY)
            with suppress(QueueError, CallFailed):
                await self._hold_or_take()

    async def _hold_or_take(self) -> None:
        # Whoever slept too long has lost it to another.
        self._note = await self._write(self.name, self._note.stamp) if self._note else None
        if self._note is None:
            await self._take()

    async def _write(self, name: str, stamp: int | None) -> Note | None:
        return await self._queue.swap_note(self._topic, name, self.holder.encode(), stamp=stamp, ttl=HELD_FOR)
