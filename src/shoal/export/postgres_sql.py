"""The SQL of a table in PostgreSQL."""

from collections.abc import Sequence
from importlib.resources import files

from shoal.export.columns import Holds
from shoal.export.database import Column
from shoal.export.kinds import Kind
from shoal.export.names import quoted

_TYPES = {
    Kind.TRUTH: "boolean",
    Kind.WHOLE: "bigint",
    Kind.LONG: "bigint",
    Kind.FRACTION: "double precision",
    Kind.MOMENT: "timestamptz",
    Kind.NESTED: "jsonb",
}
# What columns of a type hold, by the server's own name of it.
_HOLDS = {
    **dict.fromkeys(("int2", "int4", "int8"), Holds.WHOLE),
    **dict.fromkeys(("float4", "float8"), Holds.FRACTION),
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name"), Holds.TEXT),
    **dict.fromkeys(("json", "jsonb"), Holds.JSON),
    "numeric": Holds.NUMBER,
    "bool": Holds.TRUTH,
}
# How their values travel; the rest goes as text.
_SENT = {Holds.WHOLE: "bigint", Holds.FRACTION: "float8", Holds.TRUTH: "boolean"}

COLUMNS = (files(__package__) / "postgres_columns.sql").read_text(encoding="utf-8")


def type_for(kind: Kind) -> str:
    """Return the type of the column that is made for a kind of values."""
    return _TYPES.get(kind, "text")


def holds(type_name: str) -> Holds:
    """Return what columns of a type hold."""
    return _HOLDS.get(type_name, Holds.CAST)


def waiting_columns(columns: Sequence[Column]) -> str:
    """Return the columns of the temporary table in which rows wait, the last one for their order."""
    sent = [f"c{n} {_SENT.get(column.holds, 'text')}" for n, column in enumerate(columns)]
    return ", ".join([*sent, "place bigint"])


def upsert_statement(table: str, columns: Sequence[Column], key: Sequence[str], waiting: str) -> str:
    """Return the statement that takes rows from where they wait.

    Of rows with the same key only the last is taken, for a statement may change no row twice; whether keys
    are the same is for the columns' own types to say. Ordered by the key, two exports to one table wait
    for each other, but never in a circle.
    """
    names = [column.name for column in columns]
    values = {column.name: f"c{n}::{column.type}" for n, column in enumerate(columns)}
    keys = ", ".join(values[name] for name in key)
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key)
    act = f"UPDATE SET {changes}" if changes else "NOTHING"
    return (
        f"INSERT INTO {table} ({', '.join(map(quoted, names))})"
        f" SELECT DISTINCT ON ({keys}) {', '.join(values.values())}"
        f" FROM {waiting} ORDER BY {keys}, place DESC"
        f" ON CONFLICT ({', '.join(map(quoted, key))}) DO {act}"
    )
