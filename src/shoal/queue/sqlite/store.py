"""One connection, asked by the names of the queries in `sql/`."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any, TypeVar

import apsw
import msgspec

from shoal.queue.sqlite.moment import since_epoch

T = TypeVar("T")

ROWS = (1, 8, 32, 128)  # each size is one prepared statement
_ROW = re.compile(r"VALUES (\([?, ]+\))")


class Store:
    """The tables as one thread sees them; only that thread may use it.

    `lanes` remembers the numbers of lanes by run and name: a lane goes only with its run, whose number is never used
    again.

    A query answers with one value, lists as JSON: every further row would cost a fight for the GIL
    with a busy event loop.
    """

    def __init__(self, connection: apsw.Connection, clock: Callable[[], datetime]) -> None:
        self.connection = connection
        self.lanes: dict[int, dict[tuple[str, str, str], int]] = {}
        self._clock = clock

    def roll_back(self, to: str | None = None) -> None:
        """Undo the transaction, or what came after a savepoint, and all that was remembered of it."""
        self.lanes.clear()
        if to is not None:
            self.connection.execute(f"ROLLBACK TO {to}")
        elif self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def now(self) -> int:
        """Return the store's time."""
        return since_epoch(self._clock())

    def tell(self, name: str, /, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""
        self.connection.execute(query(name), values)
        return self.connection.changes()

    def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement that takes rows, and return how many it changed."""
        changed = 0
        for start in range(0, len(rows), ROWS[-1]):
            some = rows[start : start + ROWS[-1]]
            size = ROWS[bisect_left(ROWS, len(some))]
            values = [*chain.from_iterable(some), *repeat(None, len(rows[0]) * (size - len(some)))]
            self.connection.execute(query_for_rows(name, size), values)
            changed += self.connection.changes()
        return changed

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
def query_for_rows(name: str, count: int) -> str:
    """Return a query with room for so many rows: its `VALUES (?, ...)` is repeated, and rows of NULL mean nothing.

    Bound values cost a third of what JSON costs, and one statement for many rows gives up the GIL once.
    """
    return _ROW.sub(lambda found: f"VALUES {', '.join([found[1]] * count)}", query(name))


@cache
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return what reads a JSON text as this type."""
    return msgspec.json.Decoder(kind)
