"""Where kept answers lie: what a store does, and the one on disk."""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO

TRIM_AFTER = 16  # parts of the largest size that are written between two looks at what lies there


class Held(NamedTuple):
    """What lies in a store, and for how long it has, by the store's clock."""

    value: bytes
    age: timedelta


class CacheStore(Protocol):
    """Keeps bytes under a key for a while; what it loses is fetched again."""

    async def get(self, key: str) -> Held | None:
        """Return what lies under a key."""
        ...

    async def put(self, key: str, value: bytes | None, *, keep: timedelta) -> None:
        """Lay bytes under a key, or take them away; they may be gone after `keep`, or sooner."""
        ...

    async def close(self) -> None:
        """Write down what is still on its way."""
        ...


class DiskStore:
    """Keeps each answer in a file of its own; any number of processes may share the folder."""

    def __init__(self, folder: str | Path, *, most: int) -> None:
        self._folder, self._most = Path(folder), most
        self._written = most  # so that the first look comes at the first write: others wrote before
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSetting("cache", f"cannot use the folder {folder}: {error.strerror}") from error

    async def get(self, key: str) -> Held | None:
        """Return what lies under a key."""
        return await asyncio.to_thread(self._read, key)

    async def put(self, key: str, value: bytes | None, *, keep: timedelta) -> None:
        """Lay bytes under a key, or take them away."""
        await asyncio.to_thread(self._write, key, value)

    async def close(self) -> None:
        """Do nothing: all is written."""

    def _read(self, key: str) -> Held | None:
        try:
            with self._place(key).open("rb") as file:
                age = time.time() - os.fstat(file.fileno()).st_mtime
                return Held(file.read(), max(timedelta(seconds=age), ZERO))
        except OSError:
            return None

    def _write(self, key: str, value: bytes | None) -> None:
        place = self._place(key)
        if value is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(exist_ok=True)
        part = place.with_name(f"{place.name}.{secrets.token_hex(4)}.part")
        part.write_bytes(value)
        part.replace(place)  # in one step: nobody reads half of it
        self._written += len(value)
        if self._written * TRIM_AFTER > self._most:
            self._written = 0
            self._trim()

    def _trim(self) -> None:
        """Remove the oldest files until the others fit."""
        files = sorted(self._files(), reverse=True)
        room = self._most
        for _, size, path in files:
            room -= size
            if room < 0:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.glob("??/*"):
            with suppress(OSError):  # another process has trimmed it
                facts = path.stat()
                yield facts.st_mtime, facts.st_size, path

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]
