"""What each worker of a run has counted: one note for each worker. Readers add them up."""

from datetime import timedelta

from shoal.core.model import Note
from shoal.queue.contract import SharedNotes

COUNTS_TTL = timedelta(days=365)


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
