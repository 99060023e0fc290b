"""Notes: small values that the whole fleet shares, and the fences that they make."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.model import ZERO, Note

Fence = tuple[str, str, int]  # topic, key and stamp of a note
GONE = Note(value=b"", stamp=0, age=ZERO)  # the result of a swap that removed a note; no note has this stamp


@dataclass(frozen=True, slots=True)
class NotesSize:
    """How many notes a topic has, the bytes of their values, and the age of the oldest."""

    count: int = 0
    bytes: int = 0
    oldest: timedelta | None = None  # None without notes


class SharedNotes(ABC):
    """Stores small values for the whole fleet; with `swap_note` they serve as locks."""

    @abstractmethod
    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        """Return the notes of a topic that have not expired: those with these keys, or all."""

    @abstractmethod
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        """Write notes unconditionally; None removes one. Raises InvalidNote before anything is changed."""

    @abstractmethod
    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None:
        """Write or remove a note if it still has this stamp (None: if there is none).

        Returns the new note, `GONE` for a removed one, or None if the stamp has changed.
        """

    @abstractmethod
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        """Remove the oldest notes until the values have at most `max_bytes` in total; return how many."""

    async def notes_size(self, topic: str) -> NotesSize:
        """Return the size of a topic. This reads its values; a backend that counts them does not."""
        found = (await self.notes(topic)).values()
        oldest = max((note.age for note in found), default=None)
        return NotesSize(len(found), sum(len(note.value) for note in found), oldest)
