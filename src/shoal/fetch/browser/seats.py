"""How many pages are open at a time; who comes when they all are taken waits, but not in a crowd."""

import asyncio
from collections import deque

from shoal.core.errors import NoTabFree
from shoal.core.model import SECOND

IN_LINE = 64  # who wait for each seat
COME_BACK = 30 * SECOND


class Seats:
    """A number of places, given in the order of asking."""

    def __init__(self, count: int) -> None:
        self._count, self._free = count, count
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """How many are not taken."""
        return self._free

    async def take(self) -> None:
        """Wait for a place; raises NoTabFree where too many wait already."""
        if self._free:
            self._free -= 1
            return
        if len(self._line) >= IN_LINE * self._count:
            raise NoTabFree("Every tab of this worker's browser is taken", COME_BACK)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()  # it was this one's turn just now
            raise

    def give(self) -> None:
        """Give a place back: to who has waited longest."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
