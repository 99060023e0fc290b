"""A cache store in the queue, shared by the whole fleet."""

import asyncio
from datetime import timedelta

from shoal.core.errors import ShoalError
from shoal.core.tasks import start_in, watched
from shoal.fetch.cache.store import StoredEntry
from shoal.fetch.shared_state import SharedState

TOPIC = "cache"
BATCH_DELAY = timedelta(seconds=0.02)  # in which writes are batched
MAX_PENDING = 16 << 20  # bytes that may wait for one write; a queue accepts four times as many
TRIM_AFTER = 16  # a trim follows after 1/16 of the maximum size was written


class QueueCacheStore:
    """Stores bytes as notes; concurrent reads are batched, and so are writes.

    A failed write is dropped: its content is fetched again. Without `max_bytes` nothing is trimmed.
    """

    def __init__(self, queue: SharedState, *, max_bytes: int | None = None, topic: str = TOPIC) -> None:
        self._queue, self._max_bytes, self._topic = queue, max_bytes, topic
        self._reads: dict[str, asyncio.Future[StoredEntry | None]] = {}
        self._pending: dict[str, bytes | None] = {}
        self._being_written: list[dict[str, bytes | None]] = []
        self._pending_bytes = 0  # that wait
        self._written = 0  # since the last trim
        self._ttl = timedelta(0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.Task[None] | None = None

    async def get(self, key: str) -> StoredEntry | None:
        """Return the value of a key, even if it is not written yet."""
        for values in (self._pending, *reversed(self._being_written)):
            if key in values:
                value = values[key]
                return None if value is None else StoredEntry(value, timedelta(0))
        future = self._reads.get(key)
        if future is None:
            if not self._reads:
                watched(start_in(self._tasks, self._read()))
            future = self._reads[key] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)

    async def put(self, key: str, value: bytes | None, *, ttl: timedelta) -> None:
        """Store or delete the value of a key; it is written a little later."""
        while self._writer and self._pending_bytes + len(value or b"") > MAX_PENDING:
            await asyncio.shield(self._writer)
        self._pending_bytes += len(value or b"")
        self._pending[key] = value
        self._ttl = max(self._ttl, ttl)
        if self._writer is None:
            self._writer = watched(start_in(self._tasks, self._write()))

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _read(self) -> None:
        await asyncio.sleep(0)  # calls in the same iteration of the loop share one read
        reads, self._reads = self._reads, {}
        try:
            found = await self._queue.notes(self._topic, list(reads))
        except ShoalError:
            found = {}
        except BaseException as error:
            for future in reads.values():
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            raise
        for key, future in reads.items():
            note = found.get(key)
            if not future.done():
                future.set_result(StoredEntry(note.value, note.age) if note else None)

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
        except ShoalError:
            return
        finally:
            self._being_written.remove(values)
