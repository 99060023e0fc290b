"""One connection, asked by the names of the queries in `sql/`."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import apsw
import msgspec

from shoal.queue.sqlite.moment import since_epoch

T = TypeVar("T")


class Store:
    """The tables as one thread sees them; only that thread may use it.

    A query answers with one value, lists as JSON: every further row would cost a fight for the GIL
    with a busy event loop.
    """

    def __init__(self, connection: apsw.Connection, clock: Callable[[], datetime]) -> None:
        self.connection = connection
        self._clock = clock

    def now(self) -> int:
        """Return the store's time."""
        return since_epoch(self._clock())

    def tell(self, name: str, /, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""
        self.connection.execute(query(name), values)
        return self.connection.changes()

    def value(self, name: str, /, **values: Any) -> Any:
        """Return the one value that a query answers with; None when it finds no row."""
        row = self.connection.execute(query(name), values).fetchone()
        return None if row is None else row[0]

    def read(self, name: str, kind: type[T], /, **values: Any) -> T:
        """Return what a query answers with as JSON."""
        return decoder(kind).decode(self.value(name, **values))

    def find(self, name: str, kind: type[T], /, **values: Any) -> T | None:
        """Return what a query answers with as JSON; None when it finds no row."""
        text = self.value(name, **values)
        return None if text is None else decoder(kind).decode(text)


@cache
def query(name: str) -> str:
    """Return the text of `sql/<name>.sql`."""
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return what reads a JSON text as this type."""
    return msgspec.json.Decoder(kind)

