"""A table in a PostgreSQL database, through asyncpg."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.export.address import TableAddress
from shoal.export.database import Column, Table
from shoal.export.kinds import Kind
from shoal.export.names import NameRules, quoted
from shoal.export.postgres_errors import translated
from shoal.export.postgres_link import PostgresLink
from shoal.export.postgres_sql import COLUMNS, holds, type_for, upsert_statement, waiting_columns

QUEUE_SCHEMA = "shoal"
LONGEST_NAME = 63  # bytes


class PostgresTable(Table):
    """Rows of a table on a server."""

    rules = NameRules(
        longest=LONGEST_NAME,
        most=1_500,
        reserved=frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")),
    )

    def __init__(self, address: TableAddress, link: PostgresLink) -> None:
        self.place, self.name = address.place, _qualified(address)
        self._link = link

    def columns(self) -> Mapping[str, Column]:
        with self._translated():
            rows = self._link.fetch(COLUMNS, self.name)
        return {row["name"]: Column(row["name"], row["type"], holds(row["base"])) for row in rows}

    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        columns = ", ".join(f"{quoted(name)} {type_for(kind)}" for name, kind in kinds.items())
        # With the rows, so that nobody sees a table without them.
        with self._translated():
            self._link.begin()
        self._change(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({_list(key)}))")

    def add(self, kinds: Mapping[str, Kind]) -> None:
        # Not IF NOT EXISTS: who adds the same column meanwhile may give it another type.
        added = ", ".join(f"ADD COLUMN {quoted(name)} {type_for(kind)}" for name, kind in kinds.items())
        self._change(f"ALTER TABLE {self.name} {added}")

    def widen(self, column: Column, kind: Kind) -> None:
        self._change(self._widening(column, kind))

    def advice(self, column: Column, kind: Kind) -> str:
        return f"Name another table, or change this one: {self._widening(column, kind)}"

    def upsert(self, columns: Sequence[Column], key: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        with self._translated(), self._keyed(key):
            self._link.load(
                [(*one, place) for place, one in enumerate(rows)],
                waiting_columns(columns),
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
        return translated(self._link.driver, self.place)

    @contextmanager
    def _keyed(self, key: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except self._link.driver.InvalidColumnReferenceError as error:
            command = f"CREATE UNIQUE INDEX ON {self.name} ({_list(key)})"
            reason = f"may hold a key twice. Run in it: {command}; or name another table"
            raise InvalidSetting(self.place, reason) from error

    def _widening(self, column: Column, kind: Kind) -> str:
        name, wide = quoted(column.name), type_for(kind)
        return f"ALTER TABLE {self.name} ALTER COLUMN {name} TYPE {wide} USING {name}::{wide}"


def _qualified(address: TableAddress) -> str:
    """Return the name of a table as SQL writes it, with its schema if one is named."""
    schema, dot, table = address.table.rpartition(".")
    parts = [schema, table] if dot else [table]
    if schema == QUEUE_SCHEMA or schema.startswith(f"{QUEUE_SCHEMA}_"):  # which is one of a namespace
        raise InvalidSetting(address.place, f"lies in the schema {schema!r}, which is the queue's own")
    for part in parts:
        if not 0 < len(part.encode()) <= LONGEST_NAME:
            raise InvalidSetting("table", f"must have 1 to {LONGEST_NAME} bytes, got {part!r}")
    return ".".join(map(quoted, parts))


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
