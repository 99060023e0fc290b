"""Takes the body of a download, and writes it to a file."""

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase

from shoal.core.errors import WrongFileType
from shoal.core.http import Headers
from shoal.core.text import printable, shorten
from shoal.worker.files.local import storage_error
from shoal.worker.files.store import FileStore, Spool

BUFFER = 256 << 10  # bytes that are written at a time
COMPLETE = (200, 203)  # statuses whose body is the whole file


MAX_TYPE = 200  # characters, which are stored in the record of a file


class FileSink:
    """The file that one download is written to; nothing of it stays in memory."""

    def __init__(self, store: FileStore, types: Sequence[str], max_bytes: int) -> None:
        self._store, self._types, self._max_bytes = store, types, max_bytes
        self._buffer = bytearray()
        self.spool: Spool | None = None
        self.is_begun = False
        self.type = ""
        self.headers = Headers()

    def begin(self, status: int, headers: Headers) -> int | None:
        """Begin with an empty file and return its size limit; None for a response that is no file."""
        self.is_begun = status in COMPLETE
        if not self.is_begun:
            return None
        self.headers, self.type = headers, type_of(headers)
        if not is_accepted(self.type, self._types):
            got = printable(shorten(self.type)) or "no type"
            raise WrongFileType(f"The host sent {got}; accepted are {', '.join(self._types)}")
        self._buffer.clear()
        if self.spool:
            self.spool.restart()
        return self._max_bytes

    async def write(self, data: bytes | memoryview) -> None:
        """Take the next chunk; raises StorageFailed."""
        self._buffer += data
        if len(self._buffer) >= BUFFER:
            await self.flush()

    async def flush(self) -> Spool:
        """Write what is in memory, and return the file."""
        # In a thread: a slow disk must not delay everything else.
        await asyncio.to_thread(self._flush)
        assert self.spool is not None
        return self.spool

    def _flush(self) -> None:
        if self.spool is None:
            self.spool = self._store.open_spool()
        try:
            self.spool.write(self._buffer)
        except OSError as error:
            raise storage_error(self._store.place, error) from error
        self._buffer = bytearray()

    async def discard(self) -> None:
        """Remove the file unless it was kept."""
        if self.spool:
            await asyncio.to_thread(self._store.discard, self.spool)


def is_accepted(kind: str, types: Sequence[str]) -> bool:
    """Return whether a file of a type is one of those that a download accepts."""
    return not types or any(fnmatchcase(kind, one) for one in types)


def type_of(headers: Headers) -> str:
    """Return the type of a response without its parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()[:MAX_TYPE]
