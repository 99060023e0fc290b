"""Work that is done once for all who ask for it at the same time, and results that are kept up to a size."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Runs one piece of work per key at a time; whoever asks meanwhile gets the same result."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[T]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._running

    async def do(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the work under a key returns, or raise what it raises."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: one who gives up must not take the result from the others.
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
            done.exception()  # seen, even when all who asked have given up


class Shelf(Generic[T]):
    """Keeps what was used last, up to a total size."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> T | None:
        """Return what lies under a key."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: str, value: T, size: int = 1) -> T:
        """Lay a value under a key, and throw away what has not been used for longest."""
        self._size += size - self._kept.pop(key, (None, 0))[1]
        self._kept[key] = value, size
        while self._size > self._most and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1][1]
        return value
