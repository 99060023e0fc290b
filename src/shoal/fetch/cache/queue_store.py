"""A cache store in the queue, shared by the whole fleet."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shoal.core.errors import ShoalError
from shoal.core.model import Note
from shoal.core.tasks import start_in, watched
from shoal.fetch.cache.store import TRIM_AFTER, StoredEntry
from shoal.fetch.shared_state import SharedState

log = logging.getLogger(__name__)
TOPIC = "cache"
BATCH_DELAY = timedelta(seconds=0.02)  # in which writes are batched
MAX_PENDING = 16 << 20  # bytes that may wait for one write; a queue accepts four times as many


class QueueCacheStore:
    """Stores bytes as notes; concurrent reads are batched, and so are writes.

    A failed write is dropped and counted: its content is fetched again. Without `max_bytes` all is kept.
    """

    def __init__(self, queue: SharedState, *, max_bytes: int | None = None, topic: str = TOPIC) -> None:
        self._queue, self._max_bytes, self._topic = queue, max_bytes, topic
        self._to_read: list[str] = []
        self._reader: asyncio.Task[Mapping[str, Note]] | None = None
        self._pending: dict[str, bytes | None] = {}
        self._being_written: list[dict[str, bytes | None]] = []
        self._pending_bytes = 0  # that wait
        self._written = 0  # since the last trim
        self._lost = 0  # values whose write has failed
        self._ttl = timedelta(0)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writer: asyncio.Task[None] | None = None

    async def get(self, key: str) -> StoredEntry | None:
        """Return the value of a key, even if it is not written yet."""
        for values in (self._pending, *reversed(self._being_written)):
            if key in values:
                value = values[key]
                return None if value is None else StoredEntry(value, timedelta(0))
        self._to_read.append(key)
        if self._reader is None:
            self._reader = watched(start_in(self._tasks, self._read()))
        note = (await asyncio.shield(self._reader)).get(key)
        return StoredEntry(note.value, note.age) if note else None

    async def put(self, key: str, value: bytes | None, *, ttl: timedelta) -> None:
        """Store or delete the value of a key; it is written a little later."""
        while self._writer and self._pending_bytes + len(value or b"") > MAX_PENDING:
            await asyncio.shield(self._writer)
        self._pending_bytes += len(value or b"")
        self._pending[key] = value
        self._ttl = max(self._ttl, ttl)
        if self._writer is None:
            self._writer = watched(start_in(self._tasks, self._write()))

    async def flush(self) -> None:
        """Wait until what was put before is written, or cannot be."""
        if self._tasks:
            await asyncio.wait(self._tasks.copy())

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._lost:
            log.warning(
                "%d values of %r were not stored: the queue was full or away", self._lost, self._topic
            )

    async def _read(self) -> Mapping[str, Note]:
        await asyncio.sleep(0)  # calls in the same iteration of the loop share one read
        keys, self._to_read, self._reader = self._to_read, [], None
        try:
            return await self._queue.notes(self._topic, list(dict.fromkeys(keys)))
        except ShoalError:
            return {}

    async def _write(self) -> None:
        await asyncio.sleep(BATCH_DELAY.total_seconds())
        values, self._pending = self._pending, {}
        self._being_written.append(values)
        self._written += self._pending_bytes
        self._pending_bytes, self._writer = 0, None
        try:
            await self._queue.write_notes(self._topic, values, ttl=self._ttl)
            if self._max_bytes and self._written * TRIM_AFTER > self._max_bytes:
                self._written = 0
                await self._queue.trim_notes(self._topic, max_bytes=self._max_bytes)
        except ShoalError as error:
            if not self._lost:
                log.warning("Values of %r cannot be stored at the moment: %s", self._topic, error)
            self._lost += len(values)
        finally:
            self._being_written.remove(values)
