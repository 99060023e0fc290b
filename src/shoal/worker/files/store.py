"""Where downloaded files are stored: a folder, or a bucket of object storage."""

import logging
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from shoal.core.commands import run_command
from shoal.core.errors import StorageFailed
from shoal.core.urls import is_object_url
from shoal.export.objects import ObjectAddress, attributes_of_object, create_object, size_of_object
from shoal.export.target import open_locked, remove_if_left, sync_folder
from shoal.queue.outages import FULL
from shoal.scrape.files import with_suffix
from shoal.scrape.settings.storage import DEFAULT_FOLDER


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

    def keep(self, spool: Spool, path: str, kind: str) -> tuple[str, bool]:
        """Store a complete file durably under its name; return the name that it got, and whether it is new.

        A file with this name and the same content is used instead. One with other content is never
        replaced: then the new file gets another name.
        """
        checksum = spool.sha256
        for name in (path, with_suffix(path, checksum[:SUFFIX_LENGTH]), checksum):
            is_new = self._store_as(name, spool, kind)
            if is_new is not None:
                self.discard(spool)
                return name, is_new
        raise StorageFailed(self.place, f"{path!r} is the name of another file", "Choose another path=")

    @abstractmethod
    def _store_as(self, name: str, spool: Spool, kind: str) -> bool | None:
        """Store a file under a name; False if it is there already, None if another file has the name."""

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


INCOMPLETE = ".incomplete"
PART = ".part"
SUFFIX_LENGTH = 8  # characters of a checksum
PROBE_SIZE = 64 << 10  # bytes
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
CHOOSE = "Allow this user to write there, or choose another folder with --files"
MAKE_ROOM = "Free disk space, or choose another folder with --files"


class LocalFiles(FileStore):
    """Files in a folder: each is written under a temporary name, and gets its own when it is on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._parts = folder, folder / INCOMPLETE
        self.place = str(folder)

    def open_spool(self) -> Spool:
        with self._translate_errors():
            while True:
                self._parts.mkdir(parents=True, exist_ok=True)
                path = self._parts / f"{secrets.token_hex(12)}{PART}"
                handle = open_locked(path, _NEW)
                if handle is not None:
                    return Spool(os.fdopen(handle, "w+b", buffering=0), str(path))

    def _store_as(self, name: str, spool: Spool, kind: str) -> bool | None:
        assert spool.path is not None, "open_spool has named it"
        target = self._folder / name
        with self._translate_errors():
            os.fsync(spool.file.fileno())
            try:
                _make_folder(target.parent, self._folder)
                if _link(Path(spool.path), target):
                    return True
            except (FileExistsError, NotADirectoryError):
                return None  # a folder has the name, or a file that of its folder
            return False if _has_content(target, spool.size, spool.sha256) else None

    def discard(self, spool: Spool) -> None:
        spool.file.close()
        if spool.path is not None:
            with suppress(OSError):
                Path(spool.path).unlink()

    def has(self, path: str, size: int) -> bool:
        try:
            found = (self._folder / path).stat()
        except OSError:
            return False
        return found.st_size == size

    def check(self) -> None:
        with self._translate_errors(CHOOSE, MAKE_ROOM):
            self._parts.mkdir(parents=True, exist_ok=True)
            # Not by its mode bits: a folder of a network, or a read-only mount, has others.
            probe = self._parts / f"{secrets.token_hex(12)}{PART}"
            file = os.open(probe, _NEW, 0o666)
            try:
                # A full disk still takes an empty file. A file system may take fewer bytes, then refuse.
                left = memoryview(bytes(PROBE_SIZE))
                while left:
                    left = left[os.write(file, left) :]
            finally:
                os.close(file)
                probe.unlink(missing_ok=True)

    def remove_leftovers(self) -> int:
        """Remove the incomplete files of processes that were killed; those of others are locked."""
        removed = 0
        with suppress(OSError):
            for path in self._parts.glob(f"*{PART}"):
                removed += remove_if_left(path)
        return removed

    @contextmanager
    def _translate_errors(self, advice: str = "", if_full: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(self.place, error, if_full if error.errno in FULL else advice) from error


def storage_error(place: str, error: OSError, advice: str = "") -> StorageFailed:
    """Return the error for a folder that cannot be written."""
    advice = advice or (
        f"Free disk space or choose another folder with --files, then: {run_command('dead replay')}"
    )
    return StorageFailed(place, error.strerror or str(error), advice)


def _link(part: Path, target: Path) -> bool:
    """Give a complete file its name, and make that durable; return False if the name is taken."""
    try:
        os.link(part, target)  # unlike a rename, it never replaces another file
    except FileExistsError:
        return False
    except (OSError, NotImplementedError):
        # A file system without links. The names of most files are their checksums, so little can go wrong.
        if target.exists():
            return False
        part.rename(target)
    sync_folder(target.parent)
    return True


def _make_folder(folder: Path, top: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Else a power cut could lose the folder with the files in it.
    while folder not in (top.parent, folder.parent):
        folder = folder.parent
        sync_folder(folder)


def _has_content(path: Path, size: int, checksum: str) -> bool:
    if not path.is_file() or path.stat().st_size != size:
        return False
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest() == checksum


PROBE = ".shoal"  # an empty object that shows that files can be stored
log = logging.getLogger(__name__)


class ObjectFiles(FileStore):
    """Files whose names begin with the path of an address such as s3://bucket/images."""

    def __init__(self, location: str) -> None:
        self._address = ObjectAddress.read(location)
        self._store = self._address.open()
        self.place = self._address.location

    def open_spool(self) -> Spool:
        try:
            return Spool(cast(Any, TemporaryFile(buffering=0)))
        except OSError as error:
            raise storage_error("A temporary file", error) from error

    def _store_as(self, name: str, spool: Spool, kind: str) -> bool | None:
        checksum, key = spool.sha256, self._key(name)
        attributes = {"sha256": checksum} | ({"Content-Type": kind} if kind else {})
        with self._translate_errors():
            size = size_of_object(self._store, key)
            if size is None and create_object(self._store, key, spool.file, attributes):
                return True
            if size is not None and size != spool.size:
                return None
            # Not by its name: any site may choose that, also one that contains the checksum of another file.
            found = attributes_of_object(self._store, key) or {}
            return False if found.get("sha256") == checksum else None

    def discard(self, spool: Spool) -> None:
        with suppress(OSError):
            spool.file.close()

    def has(self, path: str, size: int) -> bool:
        with self._translate_errors():
            return size_of_object(self._store, self._key(path)) == size

    def check(self) -> None:
        """Raise StorageFailed if the bucket is missing or access to it is denied.

        It writes an empty object, because reading does not tell whether writing is allowed.
        """
        key = self._key(PROBE)
        try:
            attributes_of_object(self._store, key)
            create_object(self._store, key, BytesIO(), {})
        except Exception as error:
            problem = self._address.explain(error)
            if problem.is_unreachable:
                log.warning("%s: %s. Downloads are retried. %s", self.place, problem.reason, problem.advice)
                return
            raise StorageFailed(self.place, problem.reason, problem.advice) from error

    def _key(self, path: str) -> str:
        return f"{self._address.key}/{path}" if self._address.key else path

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            problem = self._address.explain(error)
            advice = f"{problem.advice}, then: {run_command('dead replay')}"
            raise StorageFailed(self.place, problem.reason, advice) from error


def open_files(place: str | None) -> FileStore:
    """Return the store of a folder, or of an address in object storage; raises InvalidSetting."""
    place = place or DEFAULT_FOLDER
    if not is_object_url(place):
        return LocalFiles(Path(place).absolute())

    return ObjectFiles(place)
