"""A table in an SQLite file, through apsw."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from shoal.core.errors import InvalidSetting
from shoal.export.address import TableAddress
from shoal.export.columns import Holds
from shoal.export.database import Column, Table
from shoal.export.kinds import Kind
from shoal.export.names import NameRules, quoted
from shoal.export.sqlite_link import SqliteLink, translated

_TYPES = {
    Kind.TRUTH: "BOOLEAN",
    Kind.WHOLE: "INTEGER",
    Kind.LONG: "INTEGER",
    Kind.FRACTION: "REAL",
}


class SqliteTable(Table):
    """Rows of a table in a file."""

    rules = NameRules(longest=1_000, most=2_000, ignores_case=True)

    def __init__(self, address: TableAddress, link: SqliteLink) -> None:
        self.place, self.name = address.place, quoted(address.table)
        self._table, self._link = address.table, link

    def columns(self) -> Mapping[str, Column]:
        query = "SELECT name, type FROM pragma_table_xinfo(?)"
        with translated(self.place):
            rows = self._link.connection.execute(query, (self._table,))
            return {name: Column(name, kind, _holds(kind)) for name, kind in rows}

    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        columns = ", ".join(f"{quoted(name)} {_type(kind)}" for name, kind in kinds.items())
        self._run(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({_list(key)}))")

    def add(self, kinds: Mapping[str, Kind]) -> None:
        for name, kind in kinds.items():
            self._run(f"ALTER TABLE {self.name} ADD COLUMN {quoted(name)} {_type(kind)}")

    def widen(self, column: Column, kind: Kind) -> None:
        # SQLite cannot change the type of a column, so another takes its place and its name.
        old, new = quoted(column.name), quoted(f"{column.name} as {_type(kind)}")
        is_truth = column.type == _TYPES[Kind.TRUTH]
        value = f"CASE {old} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END" if is_truth else old
        self._run(f"ALTER TABLE {self.name} ADD COLUMN {new} {_type(kind)}")
        self._run(f"UPDATE {self.name} SET {new} = {value}")
        self._run(f"ALTER TABLE {self.name} DROP COLUMN {old}")
        self._run(f"ALTER TABLE {self.name} RENAME COLUMN {new} TO {old}")

    def advice(self, column: Column, kind: Kind) -> str:
        return "Name another table, or choose the columns with --columns"

    def upsert(self, columns: Sequence[Column], key: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names = [column.name for column in columns]
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key)
        insert = f"INSERT INTO {self.name} ({_list(names)}) VALUES ({', '.join('?' * len(names))})"
        act = f"UPDATE SET {changes}" if changes else "NOTHING"
        with translated(self.place), self._keyed(key):
            self._link.begin().executemany(f"{insert} ON CONFLICT ({_list(key)}) DO {act}", rows)

    def commit(self) -> None:
        with translated(self.place):
            self._link.commit()

    def close(self) -> None:
        self._link.close()

    def _run(self, statement: str) -> None:
        with translated(self.place):
            self._link.begin().execute(statement)

    @contextmanager
    def _keyed(self, key: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except apsw.SQLError as error:
            if "ON CONFLICT clause does not match" not in str(error):
                raise
            command = f"CREATE UNIQUE INDEX books_key ON {self.name} ({_list(key)})"
            reason = f"may hold a key twice. Run in it: {command}; or name another table"
            raise InvalidSetting(self.place, reason) from error


def _type(kind: Kind) -> str:
    return _TYPES.get(kind, "TEXT")


def _holds(declared: str) -> Holds:
    """Return what SQLite's rules of affinity make of a declared type."""
    name = declared.upper()
    if "INT" in name:
        return Holds.NUMERIC
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return Holds.TEXT
    if "BLOB" in name or not name:
        return Holds.ANYTHING
    return Holds.FRACTION if any(part in name for part in ("REAL", "FLOA", "DOUB")) else Holds.NUMERIC


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
