"""What each worker of a run has counted: one note for each worker. Readers add them up.

Counts are written every few seconds. A worker that is killed loses those since then, so the counts of its run
are lower bounds from then on: workers that have not written their last counts are marked.
"""

from datetime import timedelta

from shoal.core.model import Note
from shoal.queue.contract import SharedNotes

COUNTS_TTL = timedelta(days=365)
LOST = (
    "A worker was killed before it wrote its last counts: missing pages, links not followed and files may be "
    "more than counted, and pages fewer. Items and tasks are exact."
)


class CountNotes:
    """The notes of one kind of counts, a topic for each run."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def read(self, queue: SharedNotes, run_id: str) -> dict[str, Note]:
        """Return the notes by worker, in the order of their ids."""
        found = await queue.notes(f"{self._name} {run_id}")
        return dict(sorted(found.items()))

    async def write(self, queue: SharedNotes, run_id: str, worker_id: str, value: bytes | None) -> None:
        """Write the note of one worker; None removes it."""
        await queue.write_notes(f"{self._name} {run_id}", {worker_id: value}, ttl=COUNTS_TTL)

    async def forget(self, queue: SharedNotes, run_id: str) -> None:
        """Remove the notes of a run."""
        if found := await self.read(queue, run_id):
            await queue.write_notes(f"{self._name} {run_id}", dict.fromkeys(found))


COUNTING = CountNotes("counting")  # workers that have not written their last counts


async def counting_workers(queue: SharedNotes, run_id: str) -> set[str]:
    """Return the workers that still count, or were killed before they wrote their last counts."""
    return set(await COUNTING.read(queue, run_id))
