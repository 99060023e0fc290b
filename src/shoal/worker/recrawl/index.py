"""The index of the pages that a run has seen: many to a note, so that a million of them can be read again."""

import asyncio
import secrets
import zlib
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import Note, Task
from shoal.core.tasks import watched
from shoal.fetch.shared_state import SharedState
from shoal.worker.recrawl.history import VISIT_TTL, PageChange, encode, key_of, topic

LINGER = 0.05  # seconds in which pages are collected
PAGES_PER_NOTE = 250
MAX_NOTE_BYTES = 32 << 20  # decompressed


class IndexedPage(msgspec.Struct, frozen=True, array_like=True):
    """A page that a run has seen."""

    task: Task
    finding: PageChange


_pages = msgspec.msgpack.Decoder(list[IndexedPage])


class PageIndex:
    """Writes pages to notes as they are seen, and rewrites one note until it is full.

    If the process is killed, the pages of its last moment may be lost.
    """

    def __init__(self, queue: SharedState, scraper: str, run_id: str) -> None:
        self._queue, self._topic = queue, topic("pages", scraper, run_id)
        self._name, self._number = secrets.token_hex(6), 0
        self._pages: list[IndexedPage] = []  # of the note that is being filled
        self._is_written = True
        self._writer: asyncio.Task[None] | None = None

    def add(self, task: Task, finding: PageChange) -> None:
        """Add a page."""
        self._pages.append(IndexedPage(task, finding))
        self._is_written = False
        if self._writer is None:
            self._writer = watched(asyncio.get_running_loop().create_task(self._write()))

    async def close(self) -> None:
        """Write what is not written yet."""
        while self._writer:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        try:
            while not self._is_written:
                await asyncio.sleep(LINGER)
                await self._write_note()
        finally:
            self._writer = None

    async def _write_note(self) -> None:
        key, pages = f"{self._name}-{self._number}", self._pages
        self._is_written = True
        if len(pages) >= PAGES_PER_NOTE:
            self._pages, self._number = [], self._number + 1
        with suppress(ShoalError):
            note = {key: zlib.compress(encode(pages))}
            await self._queue.write_notes(self._topic, note, ttl=VISIT_TTL)


async def read_index(queue: SharedState, scraper: str, run_id: str) -> Iterator[IndexedPage]:
    """Return every page that a run has seen, each once."""
    return _iterate_once(await queue.notes(topic("pages", scraper, run_id)))


def _iterate_once(notes: dict[str, Note]) -> Iterator[IndexedPage]:
    seen: set[int] = set()
    while notes:
        _, note = notes.popitem()
        for page in _decode_pages(note.value):
            key = int(key_of(page.task)[:15], 16)  # half the memory of a string
            if key not in seen:
                seen.add(key)
                yield page


def _decode_pages(data: bytes) -> list[IndexedPage]:
    """Read the pages of a note; none if it is damaged."""
    try:
        return _pages.decode(zlib.decompressobj().decompress(data, MAX_NOTE_BYTES))
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
