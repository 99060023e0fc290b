"""How many bytes of pages a worker may hold at once."""

import asyncio

MOST_BYTES = 256 << 20


class Room:
    """Holds up the reading of bodies while too much is held; the oldest goes on, so that all come to an end.

    What is held stays below the limit, but for one page and a piece of each other.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held: dict[int, int] = {}  # by the number of the lease, the oldest first
        self._used = 0
        self._freed = asyncio.Event()

    @property
    def used(self) -> int:
        """How many bytes are held."""
        return self._used

    async def take(self, number: int, size: int) -> None:
        """Take room for more bytes of a page, and wait until there is some."""
        self._held[number] = self._held.get(number, 0) + size
        self._used += size
        while self._used > self._most and next(iter(self._held)) != number:
            self._freed.clear()
            await self._freed.wait()

    def give(self, number: int) -> None:
        """Give back the room of a page."""
        if number in self._held:
            self._used -= self._held.pop(number)
            self._freed.set()
