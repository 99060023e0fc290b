"""How many pages of a run may still be claimed: exactly, however many workers claim at once.

The queue counts what is completed, dead or in hand. From that count to the claim nobody else may claim. So a
worker takes its turn, which is a note that only one can have, and claims with the note as a fence: whoever
sleeps through the end of its turn is handed nothing.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Note
from shoal.queue.contract import Fence, Queue

TOPIC = "page turns"
LONGEST_TURN = 10 * SECOND
FIRST_WAIT, LONGEST_WAIT = 0.005, 0.1  # seconds between two looks whether it is one's turn


class Allowance:
    """The pages that a run may have, of which each is claimed by one worker."""

    def __init__(self, queue: Queue, run_id: str, most: int) -> None:
        self._queue, self._run_id, self._most = queue, run_id, most

    async def left(self) -> int:
        """Return how many more may be claimed now; in a turn, it stays at least so many until its end."""
        stats = await self._queue.stats(self._run_id)
        return self._most - stats.completed - stats.dead - stats.leased

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Fence]:
        """Wait for a turn, and have it; a claim with its fence is made while it lasts, or not at all."""
        note = await self._taken()
        try:
            yield TOPIC, self._run_id, note.stamp
        finally:
            with suppress(QueueError):
                await self._queue.swap_note(TOPIC, self._run_id, None, stamp=note.stamp)

    async def lasts(self, fence: Fence) -> bool:
        """Say whether the turn with this fence has lasted until now; False where the queue cannot say."""
        topic, key, stamp = fence
        with suppress(QueueError):
            found = await self._queue.notes(topic, [key])
            return key in found and found[key].stamp == stamp
        return False

    async def _taken(self) -> Note:
        wait = FIRST_WAIT
        while True:
            note = await self._queue.swap_note(TOPIC, self._run_id, b"", stamp=None, ttl=LONGEST_TURN)
            if note is not None:
                return note
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, LONGEST_WAIT)
