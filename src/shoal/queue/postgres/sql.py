"""The named queries, and the calls of the schema's functions."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from shoal.queue.named_queries import read_queries
from shoal.queue.postgres.wire import DEAD_TYPES, EDIT_TYPES, ENTRY_TYPES, LEASE_COLUMNS, OUTCOME_TYPES

SCHEMA = "shoal"
_IN_SCHEMA = re.compile(r"\bshoal\.")


def schema_of(namespace: str) -> str:
    """Return the schema of a namespace as an SQL identifier."""
    return f'"{SCHEMA}_{namespace}"' if namespace else SCHEMA


def in_schema(text: str, schema: str) -> str:
    """Return an SQL text written for the schema `shoal` for another one, including its lock names."""
    return text if schema == SCHEMA else _replace_schema(text, schema)


@lru_cache(maxsize=512)
def _replace_schema(text: str, schema: str) -> str:
    return _IN_SCHEMA.sub(f"{schema}.", text)


def scripts(folder: str) -> Iterator[tuple[str, Path]]:
    """Yield the SQL files of a folder by name, in order."""
    for script in sorted(Path(__file__).with_name(folder).glob("*.sql")):
        yield script.stem, script


def _call(function: str, *types: str, columns: str = "*") -> str:
    parameters = ", ".join(_parameter(f"${number}", kind) for number, kind in enumerate(types, 1))
    return f"SELECT {columns} FROM shoal.{function}({parameters})"


def _parameter(place: str, kind: str) -> str:
    return kind.format(place) if "{}" in kind else f"{place}::{kind}"


_ONCE = ("uuid", "bool", "text")  # the call's id, whether it is a retry, the run or topic
_CLAIM = (
    *("text", "int", "interval", "interval", "text[]", "text[]", "text[]::bigint[]", "text[]::timestamptz[]"),
    *("text", "bytea", "bigint", "interval"),
)
_GRANT = (
    f"{', '.join(LEASE_COLUMNS)}, next_due, drained, claimed_at, outdated"
    ", floor_keys::text[] AS floor_keys, floors::text[] AS floors"
)
# Nothing if every outcome was accepted: there are as many letters.
_ACCEPTED = "CASE WHEN cardinality(settle) < length($6::text) THEN settle::text[] END AS settle"
_POSITIONS = "{0}::text[] AS {0}"  # as text[], like the parameters: see wire.py

ENQUEUE = _call("enqueue", *_ONCE, *ENTRY_TYPES, "text::bytea[]")
CLAIM = _call("claim", *_ONCE, *_CLAIM, columns=_GRANT)
SETTLE = _call("settle", *_ONCE, *OUTCOME_TYPES, columns=_ACCEPTED)
EXTEND = _call("extend", "text::bytea[]", "text::bigint[]", "interval", columns=_POSITIONS.format("extend"))
RECLAIM = _call("reclaim", "uuid", "bool", "int")
ABANDON = _call("abandon_or_bury", "uuid", "bool", "text", "bigint", "int", "text[]", "text")
TIDY = _call("tidy", "int")
FOLLOW_CLOCK = _call("follow_clock")
FOLD = _call("fold_some", "int")
REPLAY = _call("replay_after", *_ONCE, *DEAD_TYPES, "interval")
DROP = _call("drop_dead", *_ONCE, *DEAD_TYPES)
EDIT = _call("edit_dead", *_ONCE, *EDIT_TYPES)
PURGE = _call("purge", "text")
PURGE_REST = _call("purge_rest", "int")
PAUSE_HOST = _call("pause_host", "text", "interval")
SLOW_HOST = _call("slow_host", "text", "interval")
WRITE_NOTES = _call("write_notes", *_ONCE, "bigint", "interval", "bytea[]", "text[]", "bytea[]", "bytea[]")
SWAP_NOTE = _call("swap_note", *_ONCE, "bytea", "text", "bytea", "bigint", "bigint", "interval")
TRIM_NOTES = _call("trim_notes", *_ONCE, "bigint")

QUERIES = read_queries(Path(__file__).with_name("queries"))
