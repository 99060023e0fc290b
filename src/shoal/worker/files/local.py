"""Files in a folder of this machine, or in one that several machines share."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path

from shoal.core.commands import run_command
from shoal.core.errors import StorageFailed
from shoal.export.target import open_locked, remove_if_left, sync_folder
from shoal.queue.outages import FULL
from shoal.scrape.files import with_suffix
from shoal.worker.files.store import FileStore, Spool

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

    def keep(self, spool: Spool, path: str, kind: str) -> tuple[str, bool]:
        assert spool.path is not None, "open_spool has named it"
        with self._translate_errors():
            os.fsync(spool.file.fileno())
            checksum = spool.sha256
            # The name, and those to take if it belongs to another file or folder.
            for name in (path, with_suffix(path, checksum[:SUFFIX_LENGTH]), checksum):
                target = self._folder / name
                try:
                    _make_folder(target.parent, self._folder)
                    is_new = _link(Path(spool.path), target)
                except (FileExistsError, NotADirectoryError):
                    continue
                if is_new or _has_content(target, spool.size, checksum):
                    self.discard(spool)
                    return name, is_new
        raise StorageFailed(str(self._folder / path), "its name is taken by a folder", "Choose another path=")

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
