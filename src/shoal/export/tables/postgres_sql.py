"""SQL for PostgreSQL tables."""

from collections.abc import Sequence
from importlib.resources import files

from shoal.export.kinds import Kind
from shoal.export.tables.columns import ColumnType
from shoal.export.tables.database import TableColumn
from shoal.export.tables.names import quote_name

_TYPES = {
    Kind.BOOL: "boolean",
    Kind.INT: "bigint",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "double precision",
    Kind.TIMESTAMP: "timestamptz",
    Kind.JSON: "jsonb",
}
# By the server's own name of the type.
_COLUMN_TYPES = {
    **dict.fromkeys(("int2", "int4", "int8"), ColumnType.INT),
    **dict.fromkeys(("float4", "float8"), ColumnType.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name"), ColumnType.TEXT),
    **dict.fromkeys(("json", "jsonb"), ColumnType.JSON),
    "numeric": ColumnType.DECIMAL,
    "bool": ColumnType.BOOL,
}
# The type in the temporary table; everything else is sent as text.
_TRANSFER_TYPES = {ColumnType.INT: "bigint", ColumnType.FLOAT: "float8", ColumnType.BOOL: "boolean"}

COLUMNS = (files(__package__) / "postgres_columns.sql").read_text(encoding="utf-8")


def type_for(kind: Kind) -> str:
    """Return the column type for a kind of values."""
    return _TYPES.get(kind, "text")


def column_type_of(type_name: str) -> ColumnType:
    """Return what a column of this type holds."""
    return _COLUMN_TYPES.get(type_name, ColumnType.CAST)


def staging_columns(columns: Sequence[TableColumn]) -> str:
    """Return the columns of the temporary table; the last one holds the order of the rows."""
    sent = [f"c{n} {_TRANSFER_TYPES.get(column.column_type, 'text')}" for n, column in enumerate(columns)]
    return ", ".join([*sent, "position bigint"])


def upsert_statement(table: str, columns: Sequence[TableColumn], key: Sequence[str], staging: str) -> str:
    """Return the statement that upserts the rows of the temporary table.

    Only the last row of each key is used, because a statement cannot update a row twice; the column types
    decide whether keys are equal. The order by key prevents deadlocks between two exports to one table.
    """
    names = [column.name for column in columns]
    values = {column.name: f"c{n}::{column.type}" for n, column in enumerate(columns)}
    keys = ", ".join(values[name] for name in key)
    changes = ", ".join(
        f"{quote_name(name)} = excluded.{quote_name(name)}" for name in names if name not in key
    )
    act = f"UPDATE SET {changes}" if changes else "NOTHING"
    return (
        f"INSERT INTO {table} ({', '.join(map(quote_name, names))})"
        f" SELECT DISTINCT ON ({keys}) {', '.join(values.values())}"
        f" FROM {staging} ORDER BY {keys}, position DESC"
        f" ON CONFLICT ({', '.join(map(quote_name, key))}) DO {act}"
    )
