"""Deduplicates concurrent work by key, and caches results up to a total size."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs one piece of work per key at a time; concurrent callers share its result."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[T]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._running

    async def do(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the work of a key returns, or raise what it raises."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: a caller that is cancelled must not cancel the work for the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel what is running."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, key: str, done: asyncio.Task[T]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # retrieved, even if every caller was cancelled


class LruCache(Generic[T]):
    """A cache that evicts the least recently used values above a total size."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._size = max_size, 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> T | None:
        """Return the value of a key."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: str, value: T, size: int = 1) -> T:
        """Store a value, and evict the least recently used ones."""
        self._size += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = value, size
        while self._size > self._max_size and len(self._entries) > 1:
            self._size -= self._entries.popitem(last=False)[1][1]
        return value
