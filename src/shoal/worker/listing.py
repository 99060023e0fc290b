"""The pages that a run has seen, written down many to a note, so that a million of them can be read again."""

import asyncio
import secrets
import zlib
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import Note, Task
from shoal.core.tasks import watched
from shoal.fetch.notes import Notes
from shoal.worker.visits import KEEP, Finding, encode, key_of, topic

LINGER = 0.05  # seconds in which pages gather
MOST = 250  # pages of a note that is full
LARGEST = 32 << 20  # bytes of one note, unpacked


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """A page that a run has seen."""

    task: Task
    finding: Finding


_pages = msgspec.msgpack.Decoder(list[Listed])


class Listing:
    """Writes down pages as they are seen, again and again in one note until that is full.

    A process that is killed may take the pages of its last moment with it.
    """

    def __init__(self, queue: Notes, scraper: str, run_id: str) -> None:
        self._queue, self._topic = queue, topic("pages", scraper, run_id)
        self._name, self._number = secrets.token_hex(6), 0
        self._pages: list[Listed] = []  # of the note that is being filled
        self._is_written = True
        self._writer: asyncio.Task[None] | None = None

    def add(self, task: Task, finding: Finding) -> None:
        """Take note of a page."""
        self._pages.append(Listed(task, finding))
        self._is_written = False
        if self._writer is None:
            self._writer = watched(asyncio.get_running_loop().create_task(self._write()))

    async def close(self) -> None:
        """Write down what is still on its way."""
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
        if len(pages) >= MOST:
            self._pages, self._number = [], self._number + 1
        with suppress(ShoalError):
            note = {key: zlib.compress(encode(pages))}
            await self._queue.write_notes(self._topic, note, ttl=KEEP)


async def listed(queue: Notes, scraper: str, run_id: str) -> Iterator[Listed]:
    """Return every page that a run has seen, each once."""
    return _each_once(await queue.notes(topic("pages", scraper, run_id)))


def _each_once(notes: dict[str, Note]) -> Iterator[Listed]:
    seen: set[int] = set()
    while notes:
        _, note = notes.popitem()
        for page in _unpacked(note.value):
            key = int(key_of(page.task)[:15], 16)  # which takes half the room of text
            if key not in seen:
                seen.add(key)
                yield page


def _unpacked(data: bytes) -> list[Listed]:
    """Read the pages of a note; none unless it is whole."""
    try:
        return _pages.decode(zlib.decompressobj().decompress(data, LARGEST))
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
