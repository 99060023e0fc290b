"""Letting the queue hold back tasks that would only be put off: one pause of a host stands for many."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from shoal.core.errors import QueueError
from shoal.core.model import ZERO

LONGEST_PAUSE = timedelta(minutes=5)  # what is waited for may come sooner


class HostPauses(Protocol):
    """The verb of a queue that this needs."""

    async def pause_host(self, host: str, duration: timedelta) -> None: ...


class Sparing:
    """Pauses hosts, each once for as long as it lasts. A queue that fails costs claims, and no more."""

    def __init__(self, queue: HostPauses) -> None:
        self._queue = queue
        self._until: dict[str, float] = {}

    async def spare(self, host: str, wait: timedelta) -> None:
        """Hand out no task of a host for a while."""
        now, pause = asyncio.get_running_loop().time(), min(wait, LONGEST_PAUSE)
        if pause <= ZERO or now < self._until.get(host, 0.0):
            return
        self._until[host] = now + pause.total_seconds()
        with suppress(QueueError):
            await self._queue.pause_host(host, pause)
