"""A table in a PostgreSQL database, with asyncpg."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.export.kinds import Kind
from shoal.export.tables.address import TableAddress
from shoal.export.tables.database import Table, TableColumn
from shoal.export.tables.names import NameRules, quote_name
from shoal.export.tables.postgres_errors import translate_errors
from shoal.export.tables.postgres_link import PostgresLink
from shoal.export.tables.postgres_sql import (
    COLUMNS,
    column_type_of,
    staging_columns,
    type_for,
    upsert_statement,
)

QUEUE_SCHEMA = "shoal"
MAX_NAME_LENGTH = 63  # bytes


class PostgresTable(Table):
    """A PostgreSQL table."""

    rules = NameRules(
        max_bytes=MAX_NAME_LENGTH,
        max_columns=1_500,
        reserved=frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")),
    )

    def __init__(self, address: TableAddress, link: PostgresLink) -> None:
        self.location, self.name = address.location, _qualified(address)
        self._link = link

    def columns(self) -> Mapping[str, TableColumn]:
        with self._translated():
            rows = self._link.fetch(COLUMNS, self.name)
        return {
            row["name"]: TableColumn(row["name"], row["type"], column_type_of(row["base"])) for row in rows
        }

    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        columns = ", ".join(f"{quote_name(name)} {type_for(kind)}" for name, kind in kinds.items())
        # In the transaction of the rows, so that nobody sees an empty table.
        with self._translated():
            self._link.begin()
        self._change(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({_list(key)}))")

    def add(self, kinds: Mapping[str, Kind]) -> None:
        # Not IF NOT EXISTS: another client may add the same column with another type in the meantime.
        added = ", ".join(f"ADD COLUMN {quote_name(name)} {type_for(kind)}" for name, kind in kinds.items())
        self._change(f"ALTER TABLE {self.name} {added}")

    def widen(self, column: TableColumn, kind: Kind) -> None:
        self._change(self._widening(column, kind))

    def advice(self, column: TableColumn, kind: Kind) -> str:
        return f"Use another table, or change this one: {self._widening(column, kind)}"

    def upsert(
        self, columns: Sequence[TableColumn], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        with self._translated(), self._keyed(key):
            self._link.load(
                [(*one, position) for position, one in enumerate(rows)],
                staging_columns(columns),
                partial(upsert_statement, self.name, columns, key),
            )

    def commit(self) -> None:
        with self._translated():
            self._link.commit()

    def close(self) -> None:
        self._link.close()

    def _change(self, statement: str) -> None:
        with self._translated():
            self._link.change(statement)

    def _translated(self) -> AbstractContextManager[None]:
        return translate_errors(self._link.driver, self.location)

    @contextmanager
    def _keyed(self, key: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except self._link.driver.InvalidColumnReferenceError as error:
            command = f"CREATE UNIQUE INDEX ON {self.name} ({_list(key)})"
            reason = f"has no unique index on the key. Run: {command}; or use another table"
            raise InvalidSetting(self.location, reason) from error

    def _widening(self, column: TableColumn, kind: Kind) -> str:
        name, wide = quote_name(column.name), type_for(kind)
        return f"ALTER TABLE {self.name} ALTER COLUMN {name} TYPE {wide} USING {name}::{wide}"


def _qualified(address: TableAddress) -> str:
    """Return the quoted name of a table, with its schema if one is given."""
    schema, dot, table = address.table.rpartition(".")
    parts = [schema, table] if dot else [table]
    if schema == QUEUE_SCHEMA or schema.startswith(f"{QUEUE_SCHEMA}_"):  # the schema of a namespace
        raise InvalidSetting(
            address.location, f"is in the schema {schema!r}, which is reserved for the queue"
        )
    for part in parts:
        if not 0 < len(part.encode()) <= MAX_NAME_LENGTH:
            raise InvalidSetting("table", f"must have 1 to {MAX_NAME_LENGTH} bytes, got {part!r}")
    return ".".join(map(quote_name, parts))


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))
