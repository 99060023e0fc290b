"""A rotating log file: when full it becomes NAME.1, and a few older files are kept."""

import errno
import fcntl
import logging
import os
from pathlib import Path
from typing import IO

from shoal.core.errors import InvalidSetting
from shoal.core.values import counted
from shoal.queue.outages import FULL, describe_disk

log = logging.getLogger(__name__)
MAX_LAUNCHERS = 100  # that write to one folder at the same time


class LogFile:
    """Appends lines. A full or missing disk loses lines, but never stops the run."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._file: IO[bytes] | None = None
        self._size = 0
        self.error: OSError | None = None  # why the last line was not written
        self._lost = 0  # lines since then

    def write(self, line: str) -> None:
        """Append a line; rotate first if it does not fit."""
        data = line.encode(errors="replace") + b"\n"
        try:
            if self._file is None:
                self._open()
            elif self._size and self._size + len(data) > self._max_bytes:
                self._rotate()
            assert self._file is not None
            self._file.write(data)
        except OSError as error:
            self._lose(error)
            return
        self._size += len(data)
        if self.error:
            self.error, lost, self._lost = None, self._lost, 0
            log.warning("%s is written again; %s lost.", self._path, counted(lost, "line"))

    def _lose(self, error: OSError) -> None:
        is_first, self.error = self.error is None, error
        self._lost += 1
        if is_first:  # said once: this message may be a line of the same file
            where = f" on {describe_disk(self._path)}" if error.errno in FULL else ""
            log.warning(
                "The log %s could not be written: %s%s. The run continues, and lines are lost until it can.",
                self._path,
                error.strerror,
                where,
            )

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        # Unbuffered: what was written survives even if this process is killed.
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        if self._keep:
            self._path.replace(self._numbered(1))
        else:
            self._path.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class LogFolder:
    """A log folder locked by one launcher; a second one at the same time uses the subfolder `2`."""

    def __init__(self, folder: Path) -> None:
        self.path, self._lock = _lock_folder(folder)

    def close(self) -> None:
        """Release the folder."""
        os.close(self._lock)


def check_folder(folder: Path) -> None:
    """Create a folder for logs; raises InvalidSetting, which says what to type instead."""
    if folder.exists() and not folder.is_dir():
        reason = f"must be a folder, got the file {folder}. Name a folder, or write --log-dir - for stdout"
        raise InvalidSetting("--log-dir", reason)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _unwritable(folder: Path, error: OSError) -> InvalidSetting:
    reason = (
        f"cannot be written: {folder}: {error.strerror}. Name another folder, or write --log-dir - for stdout"
    )
    return InvalidSetting("--log-dir", reason)


def _lock_folder(folder: Path) -> tuple[Path, int]:
    for number in range(1, MAX_LAUNCHERS + 1):
        candidate = folder if number == 1 else folder / str(number)
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            lock = os.open(candidate / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unwritable(candidate, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            return candidate, lock
    raise InvalidSetting("--log-dir", f"is in use by {MAX_LAUNCHERS} others: {folder}. Name another folder")
