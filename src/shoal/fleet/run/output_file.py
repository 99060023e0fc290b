"""Remembers which run has written a file last, and where its items begin.

A run that is resumed writes all its items again. It replaces its own, never those of other runs or programs.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import msgspec

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.core.model import StoredItem
from shoal.core.urls import is_object_url
from shoal.export.objects import object_exists
from shoal.export.tail import repair_last_line
from shoal.export.target import has_content
from shoal.queue.contract import Queue

TOPIC = "output files"
NOTE_TTL = timedelta(days=365)


class _LastWriter(msgspec.Struct):
    run_id: str
    start: int
    end: int | None = None  # of a file that is written at once, when the run has ended


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of this machine that runs of a queue write to."""

    queue: Queue
    path: Path

    @property
    def _key(self) -> str:
        return sha256(f"{socket.gethostname()} {os.path.realpath(self.path)}".encode()).hexdigest()

    @property
    def _name(self) -> str:
        return str(self.path)

    def _has_content(self) -> bool:
        return has_content(self._name)

    async def check_owner(self, run_id: str) -> None:
        """Raise InvalidSetting if the file has content that the run has not written: it must not be lost."""
        last = await self._last()
        if (last and last.run_id == run_id) or not await asyncio.to_thread(self._has_content):
            return
        whose = f"has the items of run {last.run_id} at its end" if last else "was not written by this run"
        raise InvalidSetting(self._name, f"{whose}. Choose another file, or add --overwrite")

    async def check_last_writer(self, run_id: str) -> None:
        """Raise ExportFailed if another run of this queue has begun to write to the file since."""
        last = await self._last()
        if last and last.run_id != run_id:
            raise ExportFailed(self._name, f"run {last.run_id} writes to it too", "Export to another file")

    async def begin(self, run_id: str, items: Callable[[], AsyncIterator[StoredItem]]) -> int:
        """Cut what the run has appended before, and return where it begins: at the end for a new one.

        Raises InvalidSetting if others have appended since, of which this queue knows nothing.
        """
        self._repair()
        last = await self._last()
        size = self.path.stat().st_size if self.path.exists() else 0
        start = min(last.start, size) if last and last.run_id == run_id else size
        if start < size:
            own = {hash(msgspec.json.encode(item.data)) async for item in items()}
            if not await asyncio.to_thread(self._has_only, own, start):
                raise InvalidSetting(
                    str(self.path),
                    f"has lines that run {run_id} has not written after those that it has. "
                    "Choose another file, or add --overwrite",
                )
            os.truncate(self.path, start)
        await self._write(run_id, start)
        return start

    async def begin_rows(self, run_id: str) -> int:
        """Do the same for a file whose rows cannot be compared with items: nothing may have followed them."""
        last = await self._last()
        size = self.path.stat().st_size if self.path.exists() else 0
        start = size
        if last and last.run_id == run_id and last.start < size:
            if last.end != size:
                raise InvalidSetting(
                    str(self.path),
                    f"has changed since run {run_id} wrote to it. Choose another file, or add --overwrite",
                )
            start = last.start
            os.truncate(self.path, start)
        await self._write(run_id, start)
        return start

    async def end_rows(self, run_id: str, start: int) -> None:
        """Record that the run has written to the end of the file."""
        await self._write(run_id, start, self.path.stat().st_size)

    def _repair(self) -> None:
        if not self.path.exists():
            return
        # As a writer would, which moves the end of the file.
        file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            repair_last_line(file)
        finally:
            os.close(file)

    def _has_only(self, own: set[int], start: int) -> bool:
        """Return whether all lines from an offset on are among the items with these hashes."""
        with self.path.open("rb") as file:
            file.seek(start)
            return all(hash(line.rstrip(b"\n")) in own for line in file)

    async def replace(self, run_id: str) -> None:
        """Record that the run writes the whole file."""
        await self._write(run_id, 0)

    async def is_appended_by(self, run_id: str) -> bool:
        """Return whether the items of the run follow those of others."""
        last = await self._last()
        return last is not None and last.run_id == run_id and last.start > 0

    def _may_exist(self) -> bool:
        return self.path.exists()

    async def _write(self, run_id: str, start: int, end: int | None = None) -> None:
        value = msgspec.json.encode(_LastWriter(run_id, start, end))
        await self.queue.write_notes(TOPIC, {self._key: value}, ttl=NOTE_TTL)

    async def _last(self) -> _LastWriter | None:
        if not self._may_exist():
            return None
        found = (await self.queue.notes(TOPIC, [self._key])).get(self._key)
        return msgspec.json.decode(found.value, type=_LastWriter) if found else None


@dataclass(frozen=True, slots=True)
class OutputObject(OutputFile):
    """An object in object storage that runs of a queue write to; it is replaced whole."""

    url: str

    @property
    def _key(self) -> str:
        return sha256(self.url.encode()).hexdigest()  # the same from every machine

    @property
    def _name(self) -> str:
        return self.url

    def _may_exist(self) -> bool:
        return True

    def _has_content(self) -> bool:
        return object_exists(self.url)


def open_output(queue: Queue, path: str) -> OutputFile:
    """Return the file or object that a path names."""
    return OutputObject(queue, Path(path), path) if is_object_url(path) else OutputFile(queue, Path(path))
