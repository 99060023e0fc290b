"""Where responses are stored: the interface of a store, and the one on disk."""

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

TRIM_AFTER = 16  # a trim follows after 1/16 of the maximum size was written


class StoredEntry(NamedTuple):
    """A stored value, and its age by the store's clock."""

    value: bytes
    age: timedelta


class CacheStore(Protocol):
    """Stores bytes under a key for a while; what it loses is fetched again."""

    async def get(self, key: str) -> StoredEntry | None:
        """Return the value of a key."""
        ...

    async def put(self, key: str, value: bytes | None, *, ttl: timedelta) -> None:
        """Store or delete the value of a key; it may be gone after `ttl`, or sooner."""
        ...

    async def close(self) -> None:
        """Finish pending writes."""
        ...


class DiskStore:
    """Stores each response in its own file; any number of processes may share the folder."""

    def __init__(self, folder: str | Path, *, max_bytes: int) -> None:
        self._folder, self._max_bytes = Path(folder), max_bytes
        self._written = max_bytes  # so that the first write trims: other processes wrote before
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSetting("cache", f"cannot use the folder {folder}: {error.strerror}") from error

    async def get(self, key: str) -> StoredEntry | None:
        """Return the value of a key."""
        return await asyncio.to_thread(self._read, key)

    async def put(self, key: str, value: bytes | None, *, ttl: timedelta) -> None:
        """Store or delete the value of a key."""
        await asyncio.to_thread(self._write, key, value)

    async def close(self) -> None:
        """Do nothing: every write is finished."""

    def _read(self, key: str) -> StoredEntry | None:
        try:
            with self._path(key).open("rb") as file:
                age = time.time() - os.fstat(file.fileno()).st_mtime
                return StoredEntry(file.read(), max(timedelta(seconds=age), ZERO))
        except OSError:
            return None

    def _write(self, key: str, value: bytes | None) -> None:
        path = self._path(key)
        if value is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        part.write_bytes(value)
        part.replace(path)  # atomic: a reader never sees half of it
        self._written += len(value)
        if self._written * TRIM_AFTER > self._max_bytes:
            self._written = 0
            self._trim()

    def _trim(self) -> None:
        """Remove the oldest files until the others fit."""
        files = sorted(_files(self._folder), reverse=True)
        left = self._max_bytes
        for _, size, path in files:
            left -= size
            if left < 0:
                path.unlink(missing_ok=True)

    @staticmethod
    def measure(folder: Path) -> tuple[int, int, float | None]:
        """Return how many files a folder has, their bytes, and the seconds since the oldest was written."""
        found = [(written, size) for written, size, _ in _files(folder)]
        oldest = max(0.0, time.time() - min(found)[0]) if found else None
        return len(found), sum(size for _, size in found), oldest

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when each stored file was written, its size and its path."""
    for path in folder.glob("??/*"):
        with suppress(OSError):  # another process has trimmed it
            facts = path.stat()
            yield facts.st_mtime, facts.st_size, path
