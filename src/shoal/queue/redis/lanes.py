"""A lane read from its front, while claims take from there and new tasks come in at its end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from shoal.queue.places import page_sizes
from shoal.queue.redis.wire import ELEMENT_HEAD

PAGE = 500
Command = Callable[..., Awaitable[Any]]
NOWHERE = -1


def id_of(element: bytes) -> bytes:
    """Return the id of the task that an element is, or stands for."""
    return element[2:ELEMENT_HEAD]


class Lane:
    """One list of pending tasks."""

    def __init__(self, command: Command, shard: int, name: str) -> None:
        self._command, self._shard, self._name = command, shard, name

    async def behind(self, at: int, last: bytes) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Yield the elements behind the one that stood at `at`, with their positions, page by page.

        Elements leave at the front only. So if that one is gone, all before it are gone too, and every
        element that is there comes behind it.
        """
        sizes = page_sizes(PAGE)
        while True:
            first = max(at, 0)
            elements = await self._range(first, first + next(sizes))
            if at != NOWHERE:
                if not elements or id_of(elements[0]) != last:
                    at = await self._sought(at, last)
                    continue
                elements, first = elements[1:], first + 1
            if not elements:
                return
            yield list(enumerate(elements, first))
            at, last = first + len(elements) - 1, id_of(elements[-1])

    async def _sought(self, at: int, last: bytes) -> int:
        """Return where an element has moved to that stood at `at`, NOWHERE if it was taken."""
        while at > 0:
            first = max(0, at - PAGE)
            elements = await self._range(first, at - 1)
            for position in reversed(range(len(elements))):
                if id_of(elements[position]) == last:
                    return first + position
            at = first
        return NOWHERE

    async def _range(self, first: int, final: int) -> list[bytes]:
        found: list[bytes] = await self._command(self._shard, "LRANGE", self._name, first, final)
        return found
