"""A table in an SQLite file, with apsw."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.table import Kind
from shoal.export.tables.address import TableAddress
from shoal.export.tables.columns import ColumnType, NameRules, conflict_action, quote_name, quote_names
from shoal.export.tables.database import Table, TableColumn
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


_TYPES = {
    Kind.BOOL: "BOOLEAN",
    Kind.INT: "INTEGER",
    Kind.BIGINT: "INTEGER",
    Kind.FLOAT: "REAL",
}


class SqliteTable(Table):
    """An SQLite table."""

    rules = NameRules(max_bytes=1_000, max_columns=2_000, ignores_case=True)

    def __init__(self, address: TableAddress, link: SqliteLink) -> None:
        self.location, self.name = address.location, quote_name(address.table)
        self._table, self._link = address.table, link

    def columns(self) -> Mapping[str, TableColumn]:
        query = "SELECT name, type FROM pragma_table_xinfo(?)"
        with translate_errors(self.location):
            rows = self._link.connection.execute(query, (self._table,))
            return {name: TableColumn(name, kind, _column_type(kind)) for name, kind in rows}

    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        columns = ", ".join(f"{quote_name(name)} {_type(kind)}" for name, kind in kinds.items())
        self._run(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({quote_names(key)}))")

    def add(self, kinds: Mapping[str, Kind]) -> None:
        for name, kind in kinds.items():
            self._run(f"ALTER TABLE {self.name} ADD COLUMN {quote_name(name)} {_type(kind)}")

    def widen(self, column: TableColumn, kind: Kind) -> None:
        # SQLite cannot change the type of a column, so a new column replaces it under the same name.
        old, new = quote_name(column.name), quote_name(f"{column.name} as {_type(kind)}")
        is_bool = column.type == _TYPES[Kind.BOOL]
        value = f"CASE {old} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END" if is_bool else old
        self._run(f"ALTER TABLE {self.name} ADD COLUMN {new} {_type(kind)}")
        self._run(f"UPDATE {self.name} SET {new} = {value}")
        self._run(f"ALTER TABLE {self.name} DROP COLUMN {old}")
        self._run(f"ALTER TABLE {self.name} RENAME COLUMN {new} TO {old}")

    def advice(self, column: TableColumn, kind: Kind) -> str:
        return "Use another table, or choose the columns with --columns"

    def upsert(
        self, columns: Sequence[TableColumn], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        names = [column.name for column in columns]
        insert = f"INSERT INTO {self.name} ({quote_names(names)}) VALUES ({', '.join('?' * len(names))})"
        conflict = f"ON CONFLICT ({quote_names(key)}) {conflict_action(names, key)}"
        with translate_errors(self.location), self._keyed(key):
            self._link.begin().executemany(f"{insert} {conflict}", rows)

    def commit(self) -> None:
        with translate_errors(self.location):
            self._link.commit()

    def close(self) -> None:
        self._link.close()

    def _run(self, statement: str) -> None:
        with translate_errors(self.location):
            self._link.begin().execute(statement)

    @contextmanager
    def _keyed(self, key: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except apsw.SQLError as error:
            if "ON CONFLICT clause does not match" not in str(error):
                raise
            command = f"CREATE UNIQUE INDEX books_key ON {self.name} ({quote_names(key)})"
            reason = f"has no unique index on the key. Run: {command}; or use another table"
            raise InvalidSetting(self.location, reason) from error


def _type(kind: Kind) -> str:
    return _TYPES.get(kind, "TEXT")


def _column_type(declared: str) -> ColumnType:
    """Return the column type by SQLite's affinity rules."""
    name = declared.upper()
    if "INT" in name:
        return ColumnType.NUMERIC
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return ColumnType.TEXT
    if "BLOB" in name or not name:
        return ColumnType.ANY
    return ColumnType.FLOAT if any(part in name for part in ("REAL", "FLOA", "DOUB")) else ColumnType.NUMERIC
