"""Pages of spider traps, counted by all workers of a run together."""

from datetime import timedelta

from shoal.core.model import SECOND
from shoal.core.tasks import repeat
from shoal.queue.contract import SharedNotes
from shoal.scrape.links.filter import LinkFilter

INTERVAL = SECOND / 2  # a fast fleet fetches hundreds of pages meanwhile
MAX_TRIES = 5
TTL = timedelta(days=1)


def trap_topic(run_id: str) -> str:
    """Return the note topic of the pages of each trap that a run has fetched."""
    return f"trap pages {run_id}"


class TrapCountSync:
    """Adds the counts of one worker to those of the run: one note for each trap, with the total."""

    def __init__(self, queue: SharedNotes, link_filter: LinkFilter, run_id: str) -> None:
        self._queue, self._link_filter, self._topic = queue, link_filter, trap_topic(run_id)

    async def run(self) -> None:
        """Share the counts periodically until cancelled."""
        await repeat(self.share, INTERVAL)

    async def share(self) -> None:
        """Share the counts once; those that other workers keep writing first wait for the next time."""
        for trap, pages in self._link_filter.unshared().items():
            for _ in range(MAX_TRIES):
                if await self._add(trap, pages):
                    break

    async def _add(self, trap: str, pages: int) -> bool:
        """Add pages to the total of a trap; return False if another worker wrote it at the same time."""
        note = (await self._queue.notes(self._topic, [trap])).get(trap)
        total = (int(note.value) if note else 0) + pages
        stamp = note.stamp if note else None
        if not await self._queue.swap_note(self._topic, trap, str(total).encode(), stamp=stamp, ttl=TTL):
            return False
        self._link_filter.set_shared(trap, pages, total)
        return True
