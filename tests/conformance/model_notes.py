"""The part of the model queue with notes."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence, Queue
from tests.conformance.state import ModelState, StoredNote


class ModelNotes(Queue):
    """The verbs of notes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.data = ModelState(now)

    async def _read_notes(self, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
        live = {key: note for (owner, key), note in self.data.live_notes().items() if owner == topic}
        return {key: self._note(note) for key, note in live.items() if keys is None or key in keys}

    async def _write_notes(
        self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
    ) -> None:
        for key, value in values.items():
            self._put(topic, key, value, ttl)

    async def _swap_note(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None:
        if self.data.stamp_of(topic, key) != stamp:
            return None
        self._put(topic, key, value, ttl)
        return GONE if value is None else self._note(self.data.notes[topic, key])

    async def _trim_notes(self, topic: str, max_bytes: int) -> int:
        live = [(place, note) for place, note in self.data.live_notes().items() if place[0] == topic]
        live.sort(key=lambda entry: entry[1].at)
        size, gone = sum(len(note.value) for _, note in live), 0
        for place, note in live:
            if size <= max_bytes:
                break
            size, gone = size - len(note.value), gone + 1
            del self.data.notes[place]
        return gone

    def fence_holds(self, fence: Fence) -> bool:
        """Tell whether a note still has the stamp of a fence."""
        topic, key, stamp = fence
        return self.data.stamp_of(topic, key) == stamp

    def _put(self, topic: str, key: str, value: bytes | None, ttl: timedelta | None) -> None:
        data = self.data
        data.notes.pop((topic, key), None)
        data.last_stamp += 1
        if value is not None:
            expires_at = data.now() + ttl if ttl else None
            data.notes[topic, key] = StoredNote(value, data.last_stamp, data.now(), expires_at)

    def _note(self, note: StoredNote) -> Note:
        return Note(value=note.value, stamp=note.stamp, age=max(ZERO, self.data.now() - note.at))
