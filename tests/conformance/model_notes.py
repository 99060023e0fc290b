"""The part of the model queue with notes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence, Queue
from shoal.queue.rules import check_new_notes, check_notes, check_trim
from tests.conformance.state import ModelState, StoredNote


class ModelNotes(Queue):
    """The verbs of notes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.data = ModelState(now)

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        live = {key: note for (owner, key), note in self.data.live_notes().items() if owner == topic}
        return {key: self._note(note) for key, note in live.items() if keys is None or key in keys}

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        for key, value in values.items():
            self._put(topic, key, value, ttl)

    async def swap_note(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        *,
        stamp: int | None,
        ttl: timedelta | None = None,
    ) -> Note | None:
        check_new_notes(topic, {key: value}, ttl)
        if self.data.stamp_of(topic, key) != stamp:
            return None
        self._put(topic, key, value, ttl)
        return GONE if value is None else self._note(self.data.notes[topic, key])

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
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
