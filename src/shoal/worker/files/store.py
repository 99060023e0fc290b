"""Where files are stored: the interface, and the file that a download is written to first."""

from abc import ABC, abstractmethod
from hashlib import sha256
from typing import BinaryIO


class Spool:
    """A file that is being downloaded; nobody sees it before it is complete."""

    def __init__(self, file: BinaryIO, path: str | None = None) -> None:
        self.file, self.path = file, path  # no path: it has no name, and is gone once it is closed
        self.restart()

    def restart(self) -> None:
        """Begin again with an empty file."""
        self.file.seek(0)
        self.file.truncate()
        self._hash, self.size = sha256(), 0

    def write(self, data: bytes | bytearray) -> None:
        """Add bytes; raises OSError."""
        rest = memoryview(data)
        while rest:  # a disk that is almost full takes a part, and fails only with the next one
            rest = rest[self.file.write(rest) :]
        self._hash.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        """The checksum of what was written."""
        return self._hash.hexdigest()


class FileStore(ABC):
    """A place for files. All methods block; they raise StorageFailed."""

    place: str  # for messages

    @abstractmethod
    def open_spool(self) -> Spool:
        """Return a new file to download to."""

    @abstractmethod
    def keep(self, spool: Spool, path: str, kind: str) -> tuple[str, bool]:
        """Store a complete file durably under its name; return the name that it got, and whether it is new.

        A file with this name and the same content is used instead. One with other content is never
        replaced: then the new file gets another name.
        """

    @abstractmethod
    def discard(self, spool: Spool) -> None:
        """Remove a file that was not kept; nothing happens for one that was."""

    @abstractmethod
    def has(self, path: str, size: int) -> bool:
        """Return whether a file of this size is stored."""

    @abstractmethod
    def check(self) -> None:
        """Raise StorageFailed if no file can be stored here, and that will not change by itself."""

    def remove_leftovers(self) -> int:
        """Remove what processes have left that were killed; return how many files."""
        return 0
