"""Translate SQLite's errors to Shoal's, with what to do in the message."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import apsw

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueUnavailable, ShoalError
from shoal.queue.outages import FULL, describe_disk

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def translate_error(error: Exception, path: Path) -> Exception:
    """Return the exception to raise for an error of SQLite or the file system."""
    found = _find_translation(error, path)
    if found is not error:
        found.__cause__ = error
    return found


def _find_translation(error: Exception, path: Path) -> Exception:
    match error:
        case ShoalError():
            return error
        case apsw.BusyError() | apsw.LockedError():
            return QueueUnavailable(str(path), "another process has locked the file")
        case apsw.FullError():
            return _full(path, "no space is left")
        case apsw.ReadOnlyError():
            return QueueReadOnly(str(path), str(error))
        case apsw.PermissionsError() | apsw.AuthError():
            return QueueReadOnly(str(path), str(error))
        case apsw.NotADBError():
            return not_a_queue(path, "is not a SQLite database")
        case apsw.CorruptError():
            return QueueError(
                f"The queue at {path} is damaged: {error}. Recover the data with: "
                f"sqlite3 {path} .recover, or use another file with --queue. {_if_overwritten(path)}."
            )
        case apsw.CantOpenError() | apsw.IOError():
            return _cannot_open(path, error)
        case apsw.Error():
            return QueueError(f"The queue at {path} failed: {error}")
        case OSError(errno=code) if code in _READ_ONLY:
            return QueueReadOnly(str(path), error.strerror or str(error))
        case OSError(errno=code) if code in FULL:
            return _full(path, error.strerror or str(error))
        case OSError():
            return QueueUnavailable(str(path), error.strerror or str(error))
        case _:
            return error


def _full(path: Path, reason: str) -> QueueFull:
    # A purge writes to the file before it frees anything.
    advice = "Free some space on it by deleting other files: a purge needs space too"
    return QueueFull(str(path), f"{reason} on {describe_disk(path)}", advice)


def not_a_queue(path: Path, reason: str) -> QueueError:
    """Return the error for a file that Shoal must not touch."""
    return QueueError(f"The file {path} {reason}. Use another file with --queue.")


def _if_overwritten(path: Path) -> str:
    # SQLite would apply the log of the file that was there before to a copy.
    return (
        "If another program has overwritten the file, end all programs that use it, put a copy in its place, "
        f"delete {path}-wal and {path}-shm, and resume the run"
    )


def _cannot_open(path: Path, error: Exception) -> QueueError:
    with suppress(OSError):  # if the folder is not accessible, SQLite's own reason is the best one
        if path.is_dir():
            return QueueUnavailable(str(path), "it is a folder, not a file")
        if path.parent.is_dir() and not _may_write(path.parent):
            return QueueReadOnly(str(path), f"the folder {path.parent} cannot be written")
    advice = (
        f"Check {describe_disk(path)}. {_if_overwritten(path)}" if isinstance(error, apsw.IOError) else ""
    )
    return QueueUnavailable(str(path), str(error), advice)


def _may_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
