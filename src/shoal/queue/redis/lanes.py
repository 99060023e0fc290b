"""Reads a lane from its front, while claims remove tasks there and new tasks are added at its end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from shoal.queue.cursors import page_sizes
from shoal.queue.redis.wire import ELEMENT_HEAD

PAGE = 500
Command = Callable[..., Awaitable[Any]]
START = -1


def id_of(element: bytes) -> bytes:
    """Return the task id of an element, whole or only its head."""
    return element[2:ELEMENT_HEAD]


class LaneReader:
    """One list of pending tasks."""

    def __init__(self, command: Command, shard: int, name: str) -> None:
        self._command, self._shard, self._name = command, shard, name

    async def after(self, at: int, last: bytes) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Yield the elements after the one that was at `at`, with their positions, page by page.

        Elements leave at the front only. So if that one is gone, all before it are gone too, and every
        element in the list comes after it.
        """
        sizes = page_sizes(PAGE)
        while True:
            first = max(at, 0)
            elements = await self._range(first, first + next(sizes))
            if at != START:
                if not elements or id_of(elements[0]) != last:
                    at = await self._find(at, last)
                    continue
                elements, first = elements[1:], first + 1
            if not elements:
                return
            yield list(enumerate(elements, first))
            at, last = first + len(elements) - 1, id_of(elements[-1])

    async def _find(self, at: int, last: bytes) -> int:
        """Return the position now of the element that was at `at`, START if it was removed."""
        while at > 0:
            first = max(0, at - PAGE)
            elements = await self._range(first, at - 1)
            for position in reversed(range(len(elements))):
                if id_of(elements[position]) == last:
                    return first + position
            at = first
        return START

    async def _range(self, first: int, final: int) -> list[bytes]:
        found: list[bytes] = await self._command(self._shard, "LRANGE", self._name, first, final)
        return found
