"""How many calls of a process run at once: as few as do not hold each other up, for the sake of the server.

The first claim on a connection takes the server four times as long as the next, because it plans the queries
of the function; so do other calls. A process that used a connection for every call that comes while others
run had up to six, and made the same plans on each. Calls take milliseconds, so they take turns on one, and
there is another only when a call has waited for long, behind a slow one or on a server that is far away, or
when many wait.
"""

import asyncio

GROWTH_DELAY_SECONDS = 0.1  # a call that has waited for so long gets a connection of its own
MAX_WAITING = 3  # calls; a launcher makes as many at once when its workers begin


class GrowingTurns:
    """Lets calls in by turns: at first one at a time, and one more whenever one has waited for long."""

    def __init__(self, most: int, *, delay: float = GROWTH_DELAY_SECONDS) -> None:
        self._most, self._delay = most, delay
        self._slots, self._size, self._waiting = asyncio.Semaphore(1), 1, 0

    async def __aenter__(self) -> None:
        if self._waiting >= MAX_WAITING:
            self._grow()
        self._waiting += 1
        try:
            await self._acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()

    async def _acquire(self) -> None:
        while self._size < self._most and self._slots.locked():
            try:
                async with asyncio.timeout(self._delay):
                    await self._slots.acquire()
                    return
            except TimeoutError:
                self._grow()
        await self._slots.acquire()

    def _grow(self) -> None:
        if self._size < self._most:  # others may have waited for as long
            self._size += 1
            self._slots.release()
