"""Output targets: a file that appears only when complete, a file that is appended to, or stdout."""

import errno
import fcntl
import logging
import os
import re
import secrets
import stat
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from shoal.core.errors import ExportFailed, InvalidSetting

_MAX_LINE = 64 << 20  # bytes of one line
_CHUNK = 1 << 16


def repair_last_line(file: int) -> None:
    """Make an open file end with a complete line: drop a partial line, add a missing newline."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return
    size = os.fstat(file).st_size
    last = _last_line(file, size)
    if not last:
        return
    if _is_json(last):
        os.write(file, b"\n")
    elif len(last) < _MAX_LINE:
        os.ftruncate(file, size - len(last))


def _last_line(file: int, size: int) -> bytes:
    """Return what follows the last newline."""
    tail = b""
    while len(tail) < min(size, _MAX_LINE) and b"\n" not in tail:
        start = max(0, size - len(tail) - _CHUNK)
        tail = os.pread(file, size - len(tail) - start, start) + tail
    return tail.rpartition(b"\n")[2]


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True


# After that a file without a lock is a leftover where locks do not work.
MAX_AGE_SECONDS = 24 * 3600.0


def open_locked(path: Path, flags: int) -> int | None:
    """Create a file and lock it until it is closed; None if another process took it for a leftover before."""
    handle = os.open(path, flags, 0o666)
    with suppress(OSError):  # not all network file systems have locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def remove_if_left(path: Path) -> bool:
    """Remove an incomplete file that nobody writes to any more; return whether it was removed."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if time.time() - os.fstat(handle).st_mtime < MAX_AGE_SECONDS:
            return False
    else:
        path.unlink(missing_ok=True)  # while it is locked: see `open_locked`
        return True
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)
    return True


STDOUT = "-"
PART = ".part"
MAX_PREFIX = 80  # characters of the target's name in that of its hidden file
log = logging.getLogger(__name__)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_GROWING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SPECIAL = os.O_WRONLY | os.O_CLOEXEC  # opening a pipe for reading too would not wait for its reader


class OutputTarget(ABC):
    """An open output for bytes."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name = name
        self.stream = stream

    def write(self, data: bytes) -> None:
        """Write bytes; raises ExportFailed."""
        with translate_os_errors(self.name):
            self.stream.write(data)

    @abstractmethod
    def commit(self) -> None:
        """Make what was written durable."""

    @abstractmethod
    def discard(self) -> None:
        """Undo what can be undone."""


class AtomicFile(OutputTarget):
    """A file that gets its name only when it is complete and on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _remove_leftovers(path)
        with _translate_open_errors(str(path)):
            handle = None
            while handle is None:
                # In the same folder: a rename is atomic only within one file system.
                self._part = path.with_name(f"{_part_prefix(path)}{secrets.token_hex(6)}{PART}")
                handle = open_locked(self._part, _NEW)
            stream = os.fdopen(handle, "wb", buffering=1 << 18)
        super().__init__(str(path), stream)

    def commit(self) -> None:
        with translate_os_errors(self.name):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self._part.replace(self._path)  # before it is closed: without its lock it would be a leftover
            self.stream.close()
            sync_folder(self._path.parent)

    def discard(self) -> None:
        with suppress(OSError):
            self.stream.close()
        self._part.unlink(missing_ok=True)


def _part_prefix(path: Path) -> str:
    return f".{path.name[:MAX_PREFIX]}."


def _remove_leftovers(path: Path) -> None:
    """Remove what exports to the same file have left that were killed; those that still run hold a lock."""
    pattern, removed = re.compile(re.escape(_part_prefix(path)) + "[0-9a-f]{12}" + re.escape(PART)), 0
    with suppress(OSError):
        for entry in list(os.scandir(path.parent)):
            if pattern.fullmatch(entry.name):
                with suppress(OSError):
                    removed += remove_if_left(Path(entry.path))
    if removed:
        what = "a hidden file" if removed == 1 else f"{removed:,} hidden files"
        log.warning("%s: removed %s that an export which was killed had left", path, what)


class AppendFile(OutputTarget):
    """A file that can be read while it grows; existing content is kept, unless `overwrite`.

    With `undo`, discarding it removes what was appended. Writing or committing fails if another program has
    shortened, removed or replaced the file meanwhile, or with `overwrite` has written to it too.
    """

    def __init__(self, path: Path, *, overwrite: bool = False, undo: bool = False) -> None:
        is_special = path.exists() and not path.is_file()
        with _translate_open_errors(str(path)):
            file = os.open(path, _SPECIAL if is_special else _GROWING, 0o666)
            if overwrite and not is_special:
                os.ftruncate(file, 0)
            if path.suffix not in (".gz", ".csv"):
                repair_last_line(file)
            size = os.fstat(file).st_size
            self._start = size if undo and not is_special else None
            self._end, self._is_ours = None if is_special else size, overwrite
        super().__init__(str(path), os.fdopen(file, "ab", buffering=0))

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with translate_os_errors(self.name):
            while rest:
                rest = rest[self.stream.write(rest) :]
            if self._end is not None:
                self._check_size(self.stream.tell(), self._end + len(data))

    def commit(self) -> None:
        with translate_os_errors(self.name):
            if self._end is not None:
                os.fsync(self.stream.fileno())
                found = os.fstat(self.stream.fileno())
                self._check_size(found.st_size, self._end)
                self._check_name(found)
            self.stream.close()

    def _check_size(self, size: int, expected: int) -> None:
        if size < expected:
            raise ExportFailed(self.name, "another program has shortened it meanwhile", "Export again")
        if size > expected and self._is_ours:
            raise ExportFailed(self.name, "another program has written to it meanwhile", "Export again")
        self._end = size

    def _check_name(self, written: os.stat_result) -> None:
        try:
            named = Path(self.name).stat()
        except FileNotFoundError:
            raise ExportFailed(self.name, "it was removed meanwhile", "Export again") from None
        if not os.path.samestat(named, written):
            raise ExportFailed(self.name, "another file has replaced it meanwhile", "Export again")

    def discard(self) -> None:
        if self._start is not None and not self.stream.closed:
            size = os.fstat(self.stream.fileno()).st_size
            os.ftruncate(self.stream.fileno(), min(self._start, size))  # never filled up with zeros
        self.stream.close()


class Stdout(OutputTarget):
    """Standard output."""

    def __init__(self) -> None:
        super().__init__("stdout", sys.stdout.buffer)

    def write(self, data: bytes) -> None:
        # Not translated: a reader that closes early, as `head` does, is not a wrong setting.
        self.stream.write(data)
        self.stream.flush()

    def commit(self) -> None:
        """Do nothing: everything is flushed."""

    def discard(self) -> None:
        """Do nothing: printed output cannot be taken back."""


def open_target(path: str, *, live: bool, overwrite: bool = False, append: bool = False) -> OutputTarget:
    """Open a file for writing, or stdout for "-"; raises InvalidSetting."""
    if path == STDOUT:
        return Stdout()
    # Write to the target of a symbolic link; the link stays.
    real = Path(os.path.realpath(path))
    check_path(path, real)
    # A device or pipe must not be replaced by a file.
    is_special = real.exists() and not real.is_file()
    if live or is_special or append:
        return AppendFile(real, overwrite=overwrite, undo=append and not live)
    return AtomicFile(real)


def has_content(path: str) -> bool:
    """Return whether a path is a file that something was written to."""
    return path != STDOUT and Path(path).is_file() and Path(path).stat().st_size > 0


@contextmanager
def translate_os_errors(name: str) -> Iterator[None]:
    """Turn an OSError into ExportFailed, with the name of the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExportFailed(
            name, reason, "Free disk space or choose another file, then export again"
        ) from error


@contextmanager
def _translate_open_errors(name: str) -> Iterator[None]:
    """Turn an OSError on opening into InvalidSetting; a full disk stays ExportFailed."""
    try:
        with translate_os_errors(name):
            yield
    except ExportFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL:
            raise
        raise InvalidSetting(name, f"cannot be written: {error.reason}. Choose another file") from error


def check_path(path: str, real: Path) -> None:
    """Raise InvalidSetting, with what to type, for a path that cannot be written."""
    if real.is_dir():
        raise InvalidSetting(path, f"is a folder. Use a file in it: {Path(path) / 'items.jsonl'}")
    folder = real.parent
    if not folder.is_dir():
        raise InvalidSetting(path, f"is in a folder that does not exist. Run: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidSetting(
            path, f"is in a folder without write permission. Run: chmod u+w {folder}, or choose another file"
        )


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk: a new name survives a power cut only after that."""
    # Not all systems can open a folder; then it is skipped.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
