"""Remembers where a run's items begin in a file that several runs append to.

A run that is resumed writes all its items again. It replaces its own lines, never those of runs before it.
"""

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.queue.contract import Queue

TOPIC = "appended files"
KEPT_FOR = timedelta(days=365)


class _LastAppender(msgspec.Struct):
    run_id: str
    start: int


@dataclass(frozen=True, slots=True)
class AppendedFile:
    """A file of this machine that runs of a queue append to."""

    queue: Queue
    path: Path

    @property
    def _key(self) -> str:
        return sha256(f"{socket.gethostname()} {os.path.realpath(self.path)}".encode()).hexdigest()

    async def start_of(self, run_id: str) -> int | None:
        """Return where the run's items begin in the file; None if it has not appended to it.

        Raises InvalidSetting if another run has appended to it last: its items must not be lost.
        """
        last = await self._last()
        if last is None:
            return None
        if last.run_id == run_id:
            return min(last.start, self.path.stat().st_size)
        raise InvalidSetting(
            str(self.path),
            f"has the items of run {last.run_id} at its end. Choose another file, or add --overwrite",
        )

    async def begin(self, run_id: str) -> int:
        """Cut what the run has appended before, and return where it begins: at the end for a new one."""
        last = await self._last()
        size = self.path.stat().st_size if self.path.exists() else 0
        start = min(last.start, size) if last and last.run_id == run_id else size
        if start < size:
            os.truncate(self.path, start)
        value = msgspec.json.encode(_LastAppender(run_id, start))
        await self.queue.write_notes(TOPIC, {self._key: value}, ttl=KEPT_FOR)
        return start

    async def forget(self) -> None:
        """Forget who appended to it: it is replaced."""
        if await self._last():
            await self.queue.write_notes(TOPIC, {self._key: None})

    async def _last(self) -> _LastAppender | None:
        if not self.path.exists():
            return None
        found = (await self.queue.notes(TOPIC, [self._key])).get(self._key)
        return msgspec.json.decode(found.value, type=_LastAppender) if found else None
