"""The page limit of a run, shared by all its workers."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Note
from shoal.queue.contract import Fence, Queue, SharedNotes

TOPIC = "page turns"
BUDGETS = "page budgets"  # of resumed runs, by run id: max_pages, or empty for no limit
LOCK_TTL = 10 * SECOND
FIRST_WAIT, MAX_WAIT = 0.005, 0.1  # seconds between two attempts to get the lock


class PageLimit:
    """The pages that a run may fetch; a lock in the queue keeps workers from claiming the same ones."""

    def __init__(self, queue: Queue, run_id: str, max_pages: int) -> None:
        self._queue, self._run_id, self._max_pages = queue, run_id, max_pages

    async def remaining(self) -> int:
        """Return how many more pages may be claimed now; while the lock is held it does not fall."""
        stats = await self._queue.stats(self._run_id)
        return self._max_pages - stats.completed - stats.dead - stats.leased

    async def end_if_used(self) -> bool:
        """End the run if all its pages are used, and return whether they are."""
        stats = await self._queue.stats(self._run_id)
        if stats.completed + stats.dead < self._max_pages:
            return False
        if stats.remaining and not await self._was_resumed_with_more():
            await self._queue.finish(self._run_id, f"max_pages={self._max_pages} reached")
        return True

    async def _was_resumed_with_more(self) -> bool:
        # A worker that was started before the run was resumed knows only the smaller budget.
        note = (await self._queue.notes(BUDGETS, [self._run_id])).get(self._run_id)
        return note is not None and (not note.value or int(note.value) > self._max_pages)

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[Fence]:
        """Hold the lock; a claim with the fence that it yields fails once the lock has expired."""
        note = await self._acquire()
        try:
            yield TOPIC, self._run_id, note.stamp
        finally:
            with suppress(QueueError):
                await self._queue.swap_note(TOPIC, self._run_id, None, stamp=note.stamp)

    async def is_locked(self, fence: Fence) -> bool:
        """Return whether the lock with this fence is still held; False if the queue cannot tell."""
        topic, key, stamp = fence
        with suppress(QueueError):
            found = await self._queue.notes(topic, [key])
            return key in found and found[key].stamp == stamp
        return False

    async def _acquire(self) -> Note:
        wait = FIRST_WAIT
        while True:
            note = await self._queue.swap_note(TOPIC, self._run_id, b"", stamp=None, ttl=LOCK_TTL)
            if note is not None:
                return note
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, MAX_WAIT)


async def raise_page_limit(queue: SharedNotes, run_id: str, max_pages: int | None) -> None:
    """Set the page limit that all workers of a run use from now on; None is no limit."""
    await queue.write_notes(BUDGETS, {run_id: b"" if max_pages is None else str(max_pages).encode()})
