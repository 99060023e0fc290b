"""Where bytes go: a file that appears only when it is whole, one that grows, or stdout."""

import errno
import os
import secrets
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.tail import mend

STDOUT = "-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_GROWING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SPECIAL = os.O_WRONLY | os.O_CLOEXEC  # to a pipe, reading too would mean not to wait for its reader


class Target(ABC):
    """An open place for bytes."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name = name
        self.stream = stream

    def write(self, data: bytes) -> None:
        """Add bytes; raises ExportFailed when the place takes no more."""
        with errors_named(self.name):
            self.stream.write(data)

    @abstractmethod
    def commit(self) -> None:
        """Make what was written last."""

    @abstractmethod
    def discard(self) -> None:
        """Undo what can be undone."""


class WholeFile(Target):
    """A file that takes its name only when it is complete and on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Beside the target, for only within a file system is a rename one step.
        self._part = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
        with _refusal_named(str(path)):
            stream = os.fdopen(os.open(self._part, _NEW, 0o666), "wb", buffering=1 << 18)
        super().__init__(str(path), stream)

    def commit(self) -> None:
        with errors_named(self.name):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()
            self._part.replace(self._path)
            _sync_folder(self._path.parent)

    def discard(self) -> None:
        with suppress(OSError):
            self.stream.close()
        self._part.unlink(missing_ok=True)


class GrowingFile(Target):
    """A file that others may read while it grows; what it holds already stays, unless it is to begin anew."""

    def __init__(self, path: Path, *, anew: bool = False) -> None:
        is_special = path.exists() and not path.is_file()
        with _refusal_named(str(path)):
            file = os.open(path, _SPECIAL if is_special else _GROWING, 0o666)
            if anew and not is_special:
                os.ftruncate(file, 0)
            mend(file)
        super().__init__(str(path), os.fdopen(file, "ab", buffering=0))

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with errors_named(self.name):
            while rest:
                rest = rest[self.stream.write(rest) :]

    def commit(self) -> None:
        with errors_named(self.name):
            if stat.S_ISREG(os.fstat(self.stream.fileno()).st_mode):
                os.fsync(self.stream.fileno())
            self.stream.close()

    def discard(self) -> None:
        self.stream.close()


class Stdout(Target):
    """What this program prints."""

    def __init__(self) -> None:
        super().__init__("stdout", sys.stdout.buffer)

    def write(self, data: bytes) -> None:
        # Not translated: a reader that hangs up early, as `head` does, is no wrong setting.
        self.stream.write(data)
        self.stream.flush()

    def commit(self) -> None:
        """Do nothing: all is written."""

    def discard(self) -> None:
        """Do nothing: what is printed is printed."""


def open_target(path: str, *, live: bool, anew: bool = False) -> Target:
    """Open a file to write, or stdout for "-"; raises InvalidSetting."""
    if path == STDOUT:
        return Stdout()
    # A link stays a link: what it leads to is written.
    real = Path(os.path.realpath(path))
    check_place(path, real)
    # A device or pipe must not be replaced by a file.
    is_special = real.exists() and not real.is_file()
    return GrowingFile(real, anew=anew) if live or is_special else WholeFile(real)


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Raise ExportFailed, which says what happened to which file, where the system fails to write."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExportFailed(name, reason, "Make room or name another place, and export again") from error


@contextmanager
def _refusal_named(name: str) -> Iterator[None]:
    """Raise InvalidSetting for a place that cannot be written at all; a full disk is a failure."""
    try:
        with errors_named(name):
            yield
    except ExportFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL:
            raise
        raise InvalidSetting(name, f"cannot be written: {error.reason}. Name another place") from error


def check_place(path: str, real: Path) -> None:
    """Raise InvalidSetting, with what to type, for a name that no file can have."""
    if real.is_dir():
        raise InvalidSetting(path, f"is a folder. Name a file in it: {Path(path) / 'items.jsonl'}")
    folder = real.parent
    if not folder.is_dir():
        raise InvalidSetting(path, f"lies in a folder that is not there. Run: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidSetting(path, f"may not be written. Run: chmod u+w {folder}, or name another place")


def _sync_folder(folder: Path) -> None:
    # So that the name outlives a power cut as well. Where a folder cannot be opened, it need not.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
