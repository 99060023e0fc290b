"""The way to an SQLite file, shared by the tables that are written in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.target import check_place

QUEUE_MARK = 0x53686F6C  # what Shoal's queues have in their header; their tables are not to be touched
PATIENCE = 10_000  # milliseconds for another program's lock

BUSY = "Another program is writing to it; wait for its end, and export again"
FULL = "The table is as it was; make room, and export again"
UNFIT = "The table is as it was; name another one, or change what stands against it"


class SqliteLink:
    """One connection, opened when it is needed, and one transaction until a commit.

    Raises the driver's own errors.
    """

    def __init__(self, path: str) -> None:
        check_place(path, Path(os.path.realpath(path)))
        self._path = path
        self._open: apsw.Connection | None = None

    @property
    def connection(self) -> apsw.Connection:
        """The connection to the file; raises InvalidSetting when a queue is in it."""
        if self._open is None:
            self._open = apsw.Connection(self._path)
            self._open.set_busy_timeout(PATIENCE)
            if self._open.pragma("application_id") == QUEUE_MARK:
                raise InvalidSetting(self._path, "holds a queue of Shoal. Name another file")
        return self._open

    def begin(self) -> apsw.Connection:
        """Return the connection in a transaction."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        return self.connection

    def commit(self) -> None:
        """Make what was done last."""
        if self._open and self._open.in_transaction:
            self._open.execute("COMMIT")

    def close(self) -> None:
        """Let the file go; what was not committed is undone."""
        if self._open:
            connection, self._open = self._open, None
            with suppress(apsw.Error):
                connection.close(True)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise InvalidSetting or ExportFailed for what SQLite complains about."""
    try:
        yield
    except apsw.NotADBError as error:
        raise InvalidSetting(place, "is no SQLite database. Name another file") from error
    except apsw.Error as error:
        raise ExportFailed(place, str(error), _advice(error)) from error


def _advice(error: apsw.Error) -> str:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return BUSY
        case apsw.FullError() | apsw.IOError():
            return FULL
        case _:
            return UNFIT
