"""The SQL texts: named queries, scripts of the schema, and calls of its functions."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from shoal.queue.named_queries import read_queries

SCHEMA = "shoal"
ONCE = ("uuid", "bool", "text")  # the call's id, whether it is a retry, the run or topic
QUERIES = read_queries(Path(__file__).with_name("queries"))
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


def call(function: str, *types: str, columns: str = "*") -> str:
    """Return a call of a function of the schema with parameters of these types."""
    parameters = ", ".join(_parameter(f"${number}", kind) for number, kind in enumerate(types, 1))
    return f"SELECT {columns} FROM shoal.{function}({parameters})"


def _parameter(place: str, kind: str) -> str:
    return kind.format(place) if "{}" in kind else f"{place}::{kind}"
