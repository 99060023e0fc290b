"""The part of the model queue that keeps notes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from shoal.core.model import ZERO, Note
from shoal.queue.contract import GONE, Fence, Queue
from shoal.queue.rules import check_new_notes, check_notes, check_trim
from tests.conformance.ledger import Kept, Ledger


class Noting(Queue):
    """The verbs of notes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.books = Ledger(now)

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        live = {key: kept for (owner, key), kept in self.books.live_notes().items() if owner == topic}
        return {key: self._note(kept) for key, kept in live.items() if keys is None or key in keys}

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
        if self.books.stamp_of(topic, key) != stamp:
            return None
        self._put(topic, key, value, ttl)
        return GONE if value is None else self._note(self.books.notes[topic, key])

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        live = [(place, kept) for place, kept in self.books.live_notes().items() if place[0] == topic]
        live.sort(key=lambda entry: entry[1].at)
        size, gone = sum(len(kept.value) for _, kept in live), 0
        for place, kept in live:
            if size <= max_bytes:
                break
            size, gone = size - len(kept.value), gone + 1
            del self.books.notes[place]
        return gone

    def stands(self, fence: Fence) -> bool:
        """Say whether a note still has the stamp of a fence."""
        topic, key, stamp = fence
        return self.books.stamp_of(topic, key) == stamp

    def _put(self, topic: str, key: str, value: bytes | None, ttl: timedelta | None) -> None:
        books = self.books
        books.notes.pop((topic, key), None)
        books.last_stamp += 1
        if value is not None:
            expires_at = books.now() + ttl if ttl else None
            books.notes[topic, key] = Kept(value, books.last_stamp, books.now(), expires_at)

    def _note(self, kept: Kept) -> Note:
        return Note(value=kept.value, stamp=kept.stamp, age=max(ZERO, self.books.now() - kept.at))
