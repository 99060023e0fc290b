"""A table in an SQLite file, with apsw."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from shoal.core.errors import InvalidSetting
from shoal.export.kinds import Kind
from shoal.export.tables.address import TableAddress
from shoal.export.tables.columns import ColumnType
from shoal.export.tables.database import Table, TableColumn
from shoal.export.tables.names import NameRules, quote_name
from shoal.export.tables.sqlite_link import SqliteLink, translate_errors

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
        self._run(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({_list(key)}))")

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
        changes = ", ".join(
            f"{quote_name(name)} = excluded.{quote_name(name)}" for name in names if name not in key
        )
        insert = f"INSERT INTO {self.name} ({_list(names)}) VALUES ({', '.join('?' * len(names))})"
        act = f"UPDATE SET {changes}" if changes else "NOTHING"
        with translate_errors(self.location), self._keyed(key):
            self._link.begin().executemany(f"{insert} ON CONFLICT ({_list(key)}) DO {act}", rows)

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
            command = f"CREATE UNIQUE INDEX books_key ON {self.name} ({_list(key)})"
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


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))
