"""The page limit of a run and the budgets of link traps, shared by all workers."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Note
from shoal.core.tasks import repeat
from shoal.queue.contract import Fence, Queue, SharedNotes
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.links.mazes import Section

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


def spent_topic(run_id: str) -> str:
    """Return the note topic of what a run has spent of its budgets for links."""
    return f"spent on links {run_id}"


SYNC_INTERVAL = 5 * SECOND
URGENT_INTERVAL = SECOND / 2  # a fast fleet may spend a whole budget within a few
MAX_LINK_KINDS = 20  # at a time
MAX_TRIES = 5
SPENT_TTL = timedelta(days=1)
MAZES = "mazes"  # the key of the sections that are mazes; no kind of link is called that


class TrapBudgetSync:
    """Exchanges with the other workers what was spent on each kind of link."""

    def __init__(
        self,
        queue: SharedNotes,
        link_filter: LinkFilter,
        run_id: str,
        *,
        is_resting: Callable[[], bool] = lambda: False,
    ) -> None:
        """While the worker rests, it meets no links, and nothing is exchanged."""
        self._queue, self._link_filter, self._topic = queue, link_filter, spent_topic(run_id)
        self._is_resting = is_resting
        self._due = 0.0  # by the event loop's clock
        link_filter.set_shared_key(run_id.encode()[:64])
        self._shared_mazes: set[Section] = set()

    async def run(self) -> None:
        """Exchange periodically until cancelled."""
        await repeat(self._exchange_if_due, URGENT_INTERVAL)

    async def _exchange_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        is_urgent = self._link_filter.is_urgent or self._link_filter.mazes != self._shared_mazes
        if (now >= self._due and not self._is_resting()) or is_urgent:
            self._due = now + SYNC_INTERVAL.total_seconds() * random.uniform(0.8, 1.2)
            await self.exchange()

    async def exchange(self) -> None:
        """Exchange once; kinds that other workers keep writing first wait for the next time."""
        kinds = self._link_filter.unshared(MAX_LINK_KINDS)
        for _ in range(MAX_TRIES):
            if kinds:
                kinds = await self._exchange(kinds)
        await self._exchange_mazes()

    async def _exchange_mazes(self) -> None:
        note = (await self._queue.notes(self._topic, [MAZES])).get(MAZES)
        shared = set(_decode_mazes(note.value)) if note else set()
        self._link_filter.add_mazes(shared)
        known = self._link_filter.mazes
        is_shared = known == shared or await self._queue.swap_note(
            self._topic,
            MAZES,
            msgspec.json.encode(sorted(known)),
            stamp=note.stamp if note else None,
            ttl=SPENT_TTL,
        )
        if is_shared:
            self._shared_mazes = known

    async def _exchange(self, kinds: list[str]) -> list[str]:
        """Read and write these kinds, and return those that another worker wrote at the same time."""
        known = await self._queue.notes(self._topic, kinds)
        updates = self._link_filter.exchange(
            {kind: known[kind].value if kind in known else None for kind in kinds}
        )
        missed = []
        for kind, spent in updates.items():
            stamp = known[kind].stamp if kind in known else None
            if not await self._queue.swap_note(self._topic, kind, spent, stamp=stamp, ttl=SPENT_TTL):
                missed.append(kind)
        return missed


_decode_mazes = msgspec.json.Decoder(list[Section]).decode
