"""The page limit of a run, shared by all its workers."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Note
from shoal.core.tasks import exact_time
from shoal.queue.contract import Fence, Queue, SharedNotes

TOPIC = "page turns"
BUDGETS = "page budgets"  # of runs that were resumed or changed, by run id: max_pages, or empty for no limit
LOCK_TTL = 10 * SECOND
FIRST_WAIT, MAX_WAIT = 0.005, 0.1  # seconds between two attempts to get the lock
BLOCK_CLAIMS, BLOCK_SHARE = 16, 64  # a block is for so many claims, and at most this part of what is left
# A worker uses a block for half of its TTL: on PostgreSQL a claim may outlive the note that it began with.
BLOCK_TTL = 20 * SECOND


@dataclass(slots=True)
class Block:
    """Pages that one worker has reserved, and the fence of its claims of them."""

    fence: Fence
    left: int
    ends: float

    def take(self, limit: int) -> int:
        """Take up to `limit` pages."""
        taken = min(limit, self.left)
        self.left -= taken
        return taken


class PageLimit:
    """The pages that a run may fetch.

    A worker reserves blocks of them under a lock in the queue. What it does not use is free again when its
    next block replaces the last one, or when that expires. Near the limit there are no blocks, and each claim
    takes the lock.
    """

    def __init__(self, queue: Queue, run_id: str, max_pages: int, worker_id: str = "") -> None:
        self._queue, self._run_id, self._max_pages = queue, run_id, max_pages
        self._worker_id, self._topic = worker_id, blocks_topic(run_id)
        self._block: Block | None = None
        self._stamp: int | None = None  # of this worker's note of its block

    @property
    def block(self) -> Block | None:
        """The block of this worker, None if it is used up or old."""
        block = self._block
        return block if block and block.left and exact_time() < block.ends else None

    async def remaining(self) -> int:
        """Return how many pages nobody has used or reserved; while the lock is held it does not fall."""
        # Before the stats: a page that is claimed from a block in between counts twice rather than never.
        blocks = await self._queue.notes(self._topic)
        stats = await self._queue.stats(self._run_id)
        own = blocks.pop(self._worker_id, None)
        self._stamp = own.stamp if own else None
        used = stats.completed + stats.dead + stats.leased
        return self._max_pages - used - sum(int(note.value) for note in blocks.values())

    async def reserve(self, remaining: int, limit: int, lock: Fence) -> Block | None:
        """Reserve a block for claims of `limit` pages; None if too few pages remain, or the lock is lost."""
        self._block = None
        pages = min(BLOCK_CLAIMS * limit, remaining // BLOCK_SHARE)
        value = str(pages).encode() if pages > limit else None
        if value is None and self._stamp is None:
            return None
        ends = exact_time() + BLOCK_TTL.total_seconds() / 2
        ttl = BLOCK_TTL if value else None
        note = await self._queue.swap_note(self._topic, self._worker_id, value, stamp=self._stamp, ttl=ttl)
        if value and note and await self.is_held(lock):
            self._block = Block((self._topic, self._worker_id, note.stamp), pages, ends)
        return self._block

    async def end_if_used(self) -> bool:
        """End the run if all its pages are used, and return whether they are."""
        stats = await self._queue.stats(self._run_id)
        used = stats.completed + stats.dead
        if used < self._max_pages or used < await self._read_raised():
            return False
        if stats.remaining:
            await self._queue.finish(self._run_id, f"max_pages={self._max_pages} reached")
            if used < await self._read_raised():  # who raised it in between found the run still running
                await self._queue.resume(self._run_id)
                return False
        return True

    async def _read_raised(self) -> int:
        """Use the limit that was set for the run if it is higher: a worker learns of it after a while."""
        note = (await self._queue.notes(BUDGETS, [self._run_id])).get(self._run_id)
        if note:
            self._max_pages = max(self._max_pages, int(note.value or sys.maxsize))
        return self._max_pages

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[Fence]:
        """Hold the lock; a claim with the fence that it yields fails once the lock has expired."""
        note = await self._acquire()
        try:
            yield TOPIC, self._run_id, note.stamp
        finally:
            with suppress(QueueError):
                await self._queue.swap_note(TOPIC, self._run_id, None, stamp=note.stamp)

    async def is_held(self, fence: Fence) -> bool:
        """Return whether the lock or block with this fence is still held; False if the queue cannot tell."""
        topic, key, stamp = fence
        with suppress(QueueError):
            found = await self._queue.notes(topic, [key])
            return key in found and found[key].stamp == stamp
        return False

    async def _acquire(self) -> Note:
        wait = FIRST_WAIT
        while True:
            value = self._worker_id.encode()
            note = await self._queue.swap_note(TOPIC, self._run_id, value, stamp=None, ttl=LOCK_TTL)
            if note is not None:
                return note
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, MAX_WAIT)


async def release_pages(queue: SharedNotes, run_id: str, worker_id: str) -> None:
    """Release the lock and the block of a dead worker; a claim that it has sent brings nothing then."""
    lock = (await queue.notes(TOPIC, [run_id])).get(run_id)
    if lock and lock.value == worker_id.encode():
        await queue.swap_note(TOPIC, run_id, None, stamp=lock.stamp)
    await queue.write_notes(blocks_topic(run_id), {worker_id: None})


def blocks_topic(run_id: str) -> str:
    """Return the topic of the notes with the blocks of a run, by worker."""
    return f"page blocks {run_id}"


async def raise_page_limit(queue: SharedNotes, run_id: str, max_pages: int | None) -> None:
    """Set the page limit that all workers of a run use from now on; None is no limit."""
    await queue.write_notes(BUDGETS, {run_id: b"" if max_pages is None else str(max_pages).encode()})
