"""What is kept in the queue's own store, as notes that the whole fleet shares."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from datetime import timedelta
from typing import Any

from shoal.core.errors import ShoalError
from shoal.core.tasks import watched
from shoal.fetch.cache_store import Held
from shoal.fetch.notes import Notes

TOPIC = "cache"
LINGER = 0.02  # seconds in which writes gather
MOST_WAITING = 16 << 20  # bytes that may wait to be written
MOST_AT_ONCE = 32 << 20  # bytes of one write; a queue takes twice as many
TRIM_AFTER = 16  # parts of the largest size that are written between two trims


class NotesStore:
    """Keeps bytes as notes: those asked for at one moment are read together, and written together.

    A write that fails is given up: what it held is fetched again. Without `most` nothing is trimmed.
    """

    def __init__(self, queue: Notes, *, most: int | None = None, topic: str = TOPIC) -> None:
        self._queue, self._most, self._topic = queue, most, topic
        self._wanted: dict[str, asyncio.Future[Held | None]] = {}
        self._waiting: dict[str, bytes | None] = {}
        self._bytes = 0  # that wait
        self._written = 0  # since the last trim
        self._keep = timedelta(0)
        self._working: set[asyncio.Task[None]] = set()
        self._writer: asyncio.Task[None] | None = None

    async def get(self, key: str) -> Held | None:
        """Return what lies under a key, though it may not be written yet."""
        if key in self._waiting:
            value = self._waiting[key]
            return None if value is None else Held(value, timedelta(0))
        future = self._wanted.get(key)
        if future is None:
            if not self._wanted:
                self._begin(self._read())
            future = self._wanted[key] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)

    async def put(self, key: str, value: bytes | None, *, keep: timedelta) -> None:
        """Lay bytes under a key, or take them away; it is done a little later."""
        self._bytes += len(value or b"")
        self._waiting[key] = value
        self._keep = max(self._keep, keep)
        if self._writer is None:
            self._writer = self._begin(self._write())
        if self._bytes > MOST_WAITING:
            await asyncio.shield(self._writer)

    async def close(self) -> None:
        """Write down what is still on its way."""
        while self._working:
            await asyncio.wait(self._working)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = watched(asyncio.get_running_loop().create_task(work))
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _read(self) -> None:
        await asyncio.sleep(0)  # those who come in the same turn of the loop are read with it
        wanted, self._wanted = self._wanted, {}
        try:
            found = await self._queue.notes(self._topic, list(wanted))
        except ShoalError:
            found = {}
        except BaseException as error:
            for future in wanted.values():
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            raise
        for key, future in wanted.items():
            note = found.get(key)
            if not future.done():
                future.set_result(Held(note.value, note.age) if note else None)

    async def _write(self) -> None:
        await asyncio.sleep(LINGER)
        values, self._waiting = self._waiting, {}
        self._written += self._bytes
        self._bytes, self._writer = 0, None
        try:
            for batch in _batches(values):
                await self._queue.write_notes(self._topic, batch, ttl=self._keep)
            if self._most and self._written * TRIM_AFTER > self._most:
                self._written = 0
                await self._queue.trim_notes(self._topic, max_bytes=self._most)
        except ShoalError:
            return


def _batches(values: Mapping[str, bytes | None]) -> Iterator[dict[str, bytes | None]]:
    batch: dict[str, bytes | None] = {}
    room = MOST_AT_ONCE
    for key, value in values.items():
        room -= len(value or b"")
        if batch and room < 0:
            yield batch
            batch, room = {}, MOST_AT_ONCE - len(value or b"")
        batch[key] = value
    if batch:
        yield batch
