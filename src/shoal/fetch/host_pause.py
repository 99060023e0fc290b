"""Pauses a host in the queue, so that tasks which would only be postponed are not claimed."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from shoal.core.errors import QueueError
from shoal.core.model import ZERO

MAX_PAUSE = timedelta(minutes=5)  # what the tasks wait for may come sooner


class HostPauses(Protocol):
    """The queue method that this needs."""

    async def pause_host(self, host: str, duration: timedelta) -> None: ...


class HostPauser:
    """Pauses each host once per pause. A queue that fails costs some useless claims, nothing more."""

    def __init__(self, queue: HostPauses) -> None:
        self._queue = queue
        self._until: dict[str, float] = {}

    async def pause(self, host: str, wait: timedelta) -> None:
        """Stop handing out tasks of a host for a while."""
        now, pause = asyncio.get_running_loop().time(), min(wait, MAX_PAUSE)
        if pause <= ZERO or now < self._until.get(host, 0.0):
            return
        self._until[host] = now + pause.total_seconds()
        with suppress(QueueError):
            await self._queue.pause_host(host, pause)
