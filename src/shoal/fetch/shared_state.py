"""What fetchers need from a queue: small state that the whole fleet shares, and pauses of hosts."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from shoal.core.errors import QueueError
from shoal.core.model import ZERO, Note

SECRETS = "secrets"
MAX_PAUSE = timedelta(minutes=5)  # what the tasks of a host wait for may come sooner


class SharedState(Protocol):
    """The methods of a queue that store notes and pause hosts; see its contract."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]: ...
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None: ...
    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None: ...
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int: ...
    async def pause_host(self, host: str, duration: timedelta) -> None: ...


async def secret_of(queue: SharedState, key: str) -> bytes:
    """Return the queue's secret for a purpose, the same for all workers; created on first use."""
    await queue.swap_note(SECRETS, key, secrets.token_bytes(32), stamp=None)
    return (await queue.notes(SECRETS, [key]))[key].value


class HostPauser:
    """Pauses hosts, so that tasks which would only be postponed are not claimed; each once per pause.

    A queue that fails costs some useless claims, nothing more.
    """

    def __init__(self, queue: SharedState) -> None:
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
