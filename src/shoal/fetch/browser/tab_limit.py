"""Limits how many tabs are open at a time; callers above the limit wait in a bounded queue."""

import asyncio
from collections import deque

from shoal.core.errors import NoTabFree
from shoal.core.model import SECOND

MAX_WAITERS = 64  # waiting callers per tab
RETRY_AFTER = 30 * SECOND


class TabLimit:
    """A number of slots, granted in the order of requests."""

    def __init__(self, count: int) -> None:
        self._count, self._free = count, count
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

    async def acquire(self) -> None:
        """Wait for a slot; raises NoTabFree where too many callers wait already."""
        if self._free:
            self._free -= 1
            return
        if len(self._waiters) >= MAX_WAITERS * self._count:
            raise NoTabFree("Every tab of this worker's browser is in use", RETRY_AFTER)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was just granted to this caller
            raise

    def release(self) -> None:
        """Release a slot: to the caller that has waited longest."""
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
