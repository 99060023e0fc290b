"""SQLite's errors, translated: each says what to do."""

import errno
from pathlib import Path

import apsw
import pytest

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueUnavailable, UnknownRun
from shoal.queue.sqlite.errors import translate_error

PATH = Path("/nowhere/queue.db")


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (apsw.BusyError("locked"), QueueUnavailable, "another process"),
        (apsw.FullError("full"), QueueFull, "Free some space"),
        (apsw.ReadOnlyError("read only"), QueueReadOnly, "write permission"),
        (apsw.NotADBError("not a database"), QueueError, "another file with --queue"),
        (apsw.CorruptError("malformed"), QueueError, ".recover"),
        (
            apsw.CorruptError("malformed"),
            QueueError,
            "has overwritten the file, end all programs that use it",
        ),
        (apsw.IOError("disk I/O error"), QueueUnavailable, "disk I/O error"),
        (apsw.IOError("disk I/O error"), QueueUnavailable, f"delete {PATH}-wal and {PATH}-shm, and resume"),
        (apsw.CantOpenError("unable to open"), QueueUnavailable, "unable to open"),
        (apsw.SQLError("no such table"), QueueError, "no such table"),
        (PermissionError(errno.EACCES, "Permission denied"), QueueReadOnly, "Permission denied"),
        (OSError(errno.EROFS, "Read-only file system"), QueueReadOnly, "Read-only"),
        (OSError(errno.ENOSPC, "No space left"), QueueFull, "No space left"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), QueueUnavailable, "Not a directory"),
    ],
)
def test_an_error_becomes_one_of_ours_and_says_what_to_do(error, kind, hint):
    found = translate_error(error, PATH)
    assert type(found) is kind
    assert str(PATH) in str(found)
    assert hint in str(found)
    assert found.__cause__ is error


@pytest.mark.parametrize("error", [UnknownRun("r"), ValueError("a mistake in a program")])
def test_what_is_not_sqlites_stays_as_it_is(error):
    assert translate_error(error, PATH) is error
