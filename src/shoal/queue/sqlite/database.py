"""Opening the file: its folder, its settings, and the check that it is ours to open."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import apsw

from shoal.core.errors import InvalidSetting, QueueReadOnly
from shoal.queue.sqlite.door import not_a_queue, translated

OURS = 0x53686F6C  # "Shol", in the file's header
PATIENCE = timedelta(seconds=30)
SYNCHRONOUS = ("normal", "full")
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 16_000  # 64 MB of log


@dataclass(frozen=True, slots=True)
class Address:
    """Which file, and how to treat it."""

    path: Path
    synchronous: str = "normal"
    patience: timedelta = PATIENCE

    def __post_init__(self) -> None:
        if self.synchronous not in SYNCHRONOUS:
            raise InvalidSetting("synchronous", f"must be normal or full, got {self.synchronous!r}")


def connect(address: Address) -> apsw.Connection:
    """Open the file, and make it and its folders if they are missing; raises QueueError."""
    try:
        address.path.parent.mkdir(parents=True, exist_ok=True)
        _make_private(address.path)
        return _opened(address)
    except (apsw.Error, OSError) as error:
        raise translated(error, address.path) from error


def _make_private(path: Path) -> None:
    """Create the file for its owner alone, if it is missing: it holds secrets, and what tasks send.

    SQLite gives the log beside it the same mode. A file that is there is left as its owner made it.
    """
    # Only a new file is opened here: closing one that this process has locked would release its locks.
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _opened(address: Address) -> apsw.Connection:
    connection = apsw.Connection(str(address.path), statementcachesize=200)
    try:
        connection.set_busy_timeout(round(address.patience.total_seconds() * 1000))
        _check(connection, address.path)
        _to_wal(connection, address.patience)
        connection.pragma("synchronous", address.synchronous)
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("temp_store", "memory")
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that cannot be written, or that another program made."""
    if connection.readonly("main"):
        raise QueueReadOnly(str(path), "the file is read-only")
    # In this order: another process may be making the tables, and our mark comes with them.
    if _tables(connection) and connection.pragma("application_id") != OURS:
        raise not_a_queue(path, "is a database of another program")


def _tables(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone() == (1,)


def _to_wal(connection: apsw.Connection, patience: timedelta) -> None:
    """Switch to the write-ahead log, once in the file's life."""
    until = time.monotonic() + patience.total_seconds()
    while connection.pragma("journal_mode") != "wal":
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            # SQLite does not wait here by itself when many open a new file at once.
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
