"""The files of a run, counted in the queue, so that every report has them."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from shoal.queue.contract import SharedNotes
from shoal.worker.count_notes import CountNotes

FILE_NOTES = CountNotes("files")
TYPE, SIZE, MISSING, OTHER = "type", "size", "missing", "other"  # why a file was refused


@dataclass(slots=True)
class FileCounts:
    """Downloaded files: stored, unchanged since an earlier run, known to this one, and refused by reason."""

    stored: int = 0
    bytes: int = 0  # of stored files
    unchanged: int = 0
    known: int = 0  # stored before by this run, under the same URL or with the same content
    refused: dict[str, int] = field(default_factory=Counter)
    ended: int = 0  # tasks that are done; those of refused files may be dead letters

    def refuse(self, reason: str) -> None:
        """Count a file that will not be stored."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @property
    def total(self) -> int:
        """The number of downloads that have ended, whatever their result."""
        return self.stored + self.unchanged + self.known + sum(self.refused.values())

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(
            self.stored + other.stored,
            self.bytes + other.bytes,
            self.unchanged + other.unchanged,
            self.known + other.known,
            Counter(self.refused) + Counter(other.refused),
            self.ended + other.ended,
        )


async def file_counts(queue: SharedNotes, run_id: str) -> FileCounts:
    """Return the files of a run so far."""
    notes = await FILE_NOTES.read(queue, run_id)
    return sum((_decode(note.value) for note in notes.values()), FileCounts())


async def write_file_counts(queue: SharedNotes, run_id: str, worker_id: str, counts: FileCounts) -> None:
    """Record the files of one worker."""
    await FILE_NOTES.write(queue, run_id, worker_id, msgspec.json.encode(counts))


_decode = msgspec.json.Decoder(FileCounts).decode
