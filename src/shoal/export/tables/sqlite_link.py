"""The connection to an SQLite file, shared by the tables written to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.target import check_path

QUEUE_APPLICATION_ID = 0x53686F6C  # in the header of queue files; never write to those
BUSY_TIMEOUT_MS = 10_000  # to wait for another program's lock

BUSY = "Another program is writing to the file; wait for it, then export again"
DISK_FULL = "The table is unchanged; free disk space, then export again"
REJECTED = "The table is unchanged; use another one, or change the constraint that forbids it"


class SqliteLink:
    """One connection, opened on first use, and one transaction until a commit.

    Raises the driver's own errors.
    """

    def __init__(self, path: str) -> None:
        check_path(path, Path(os.path.realpath(path)))
        self._path = path
        self._open: apsw.Connection | None = None

    @property
    def connection(self) -> apsw.Connection:
        """The connection to the file; raises InvalidSetting if the file is a queue."""
        if self._open is None:
            self._open = apsw.Connection(self._path)
            self._open.set_busy_timeout(BUSY_TIMEOUT_MS)
            if self._open.pragma("application_id") == QUEUE_APPLICATION_ID:
                raise InvalidSetting(self._path, "is a Shoal queue. Use another file")
        return self._open

    def begin(self) -> apsw.Connection:
        """Start a transaction if needed, and return the connection."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        return self.connection

    def commit(self) -> None:
        if self._open and self._open.in_transaction:
            self._open.execute("COMMIT")

    def close(self) -> None:
        """Close the file; what was not committed is rolled back."""
        if self._open:
            connection, self._open = self._open, None
            with suppress(apsw.Error):
                connection.close(True)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Turn SQLite errors into InvalidSetting or ExportFailed."""
    try:
        yield
    except apsw.NotADBError as error:
        raise InvalidSetting(location, "is not an SQLite database. Use another file") from error
    except apsw.Error as error:
        raise ExportFailed(location, str(error), _advice(error)) from error


def _advice(error: apsw.Error) -> str:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return BUSY
        case apsw.FullError() | apsw.IOError():
            return DISK_FULL
        case _:
            return REJECTED
