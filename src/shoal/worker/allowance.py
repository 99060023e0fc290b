"""How many pages of a run may still be claimed: exactly, however many workers claim at once.

The queue counts what is completed, dead or in hand. From that count to the claim nobody else may claim. So a
worker takes its turn, which is a note that only one can have, and claims with the note as a fence: whoever
sleeps through the end of its turn is handed nothing.

Whoever finds that all pages are used ends the run: it becomes partial if tasks are left.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Note
from shoal.queue.contract import Fence, Queue

TOPIC = "page turns"
BUDGETS = "page budgets"  # of runs that were resumed, by run id: max_pages, or nothing for no limit
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

    async def end(self) -> bool:
        """End the run if all its pages are used, and tell whether they are."""
        stats = await self._queue.stats(self._run_id)
        if stats.completed + stats.dead < self._most:
            return False
        if stats.remaining and not await self._was_resumed_with_more():
            await self._queue.finish(self._run_id, f"max_pages={self._most} reached")
        return True

    async def _was_resumed_with_more(self) -> bool:
        # A worker that was started before the run was resumed knows the smaller budget only.
        note = (await self._queue.notes(BUDGETS, [self._run_id])).get(self._run_id)
        return note is not None and (not note.value or int(note.value) > self._most)

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


async def raise_budget(queue: Queue, run_id: str, most: int | None) -> None:
    """Tell all workers of a run that it may have so many pages from now on; None is no limit."""
    await queue.write_notes(BUDGETS, {run_id: b"" if most is None else str(most).encode()})
