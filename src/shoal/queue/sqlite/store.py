"""One connection that runs the queries in `sql/` by name."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from shoal.core.model import ZERO, Task
from shoal.queue.encoding import duration, moment, optional_duration, since_epoch
from shoal.queue.intake import read_payload
from shoal.queue.named_queries import read_queries

T = TypeVar("T")
Position = TypeVar("Position")
# Some rows of a list, and the position to continue after: None at the end.
Page = tuple[Position | None, list[T]]
NO_HOST = 0  # the host of tasks without a URL; it has no rate limit
HostQueueName = tuple[str, str, str]  # step, partition, host

QUERIES = read_queries(Path(__file__).with_name("sql"))
ROWS = (1, 8, 32, 128, 512)  # each size is one prepared statement
_ROW = re.compile(r"VALUES (\([?, ]+\))")
# Of the clock, in microseconds.
TOLERANCE = 10_000_000  # by which the machine's clock may be set back without an effect
RECORD_INTERVAL_MICROS = 5_000_000  # between two records of the time: each costs a write
_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class RecordedTime(NamedTuple):
    """What the file knows of the time: the latest one, and how far its clock is ahead of the machine's.

    The store's clock is the machine's, except that it goes on where that is set back. Gaps of hosts, delays
    and leases end at times: if the clock were set back by an hour, all of them would last an hour longer, and
    the run would stand still.
    """

    latest: int
    ahead: int

    def ahead_at(self, machine: int) -> int:
        """Return how far the store's clock is ahead, by the machine's clock; zero unless it was set back."""
        if machine >= self.latest:  # it was set right, or nothing was claimed for as long as it was set back
            return 0
        if machine + self.ahead >= self.latest - TOLERANCE:
            return self.ahead
        return self.latest - machine

    def is_outdated(self, now: int, ahead: int) -> bool:
        """Whether this time of the store must be recorded."""
        return ahead != self.ahead or now >= self.latest + RECORD_INTERVAL_MICROS


class Store:
    """The tables as one thread sees them; only that thread may use it.

    A query returns one value, with lists as JSON: every further row would compete for the GIL
    with a busy event loop.
    """

    def __init__(self, connection: apsw.Connection, clock: Callable[[], datetime]) -> None:
        self.connection = connection
        # Host queues by run and name. They are deleted only with their run, whose number is never reused.
        self.host_queues: dict[int, dict[HostQueueName, int]] = {}
        self._clock = clock

    def now(self) -> int:
        """Return the store's time."""
        machine = since_epoch(self._clock())
        return machine + self._recorded_time().ahead_at(machine)

    def moment(self) -> datetime:
        """Return the store's time as a datetime."""
        return moment(self.now())

    def record_now(self) -> int:
        """Return the store's time, from which it goes on if the machine's clock is set back."""
        machine, recorded = since_epoch(self._clock()), self._recorded_time()
        ahead = recorded.ahead_at(machine)
        now = machine + ahead
        if recorded.is_outdated(now, ahead):
            self.run("clock_write", latest=now, ahead=ahead)
        return now

    def _recorded_time(self) -> RecordedTime:
        return RecordedTime(*self.connection.execute(QUERIES["clock_read"]).get)

    def roll_back(self, to: str | None = None) -> None:
        """Roll back the transaction, or to a savepoint, and clear the cached host queues."""
        self.host_queues.clear()
        if to is not None:
            self.connection.execute(f"ROLLBACK TO {to}")
        elif self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def run(self, name: str, /, **values: Any) -> int:
        """Run a statement and return the number of changed rows."""
        self.connection.execute(QUERIES[name], values)
        return self.connection.changes()

    def run_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement for many rows and return the number of changed rows."""
        changed = 0
        for start in range(0, len(rows), ROWS[-1]):
            some = rows[start : start + ROWS[-1]]
            size = ROWS[bisect_left(ROWS, len(some))]
            padding = repeat(None, len(rows[0]) * (size - len(some)))
            self.connection.execute(query_for_rows(name, size), [*chain.from_iterable(some), *padding])
            changed += self.connection.changes()
        return changed

    def value(self, name: str, /, **values: Any) -> Any:
        """Return the single value of a query; None if it finds no row."""
        row = self.connection.execute(QUERIES[name], values).fetchone()
        return None if row is None else row[0]

    def read(self, name: str, kind: type[T], /, **values: Any) -> T:
        """Return the JSON result of a query as a type."""
        return decode_as(self.value(name, **values), kind)

    def find(self, name: str, kind: type[T], /, **values: Any) -> T | None:
        """Return the JSON result of a query as a type; None if it finds no row."""
        text = self.value(name, **values)
        return None if text is None else decode_as(text, kind)


@cache
def query_for_rows(name: str, count: int) -> str:
    """Return a query with its `VALUES (?, ...)` repeated `count` times; the query ignores rows of NULL.

    Bound values cost a third of what JSON costs, and one statement for many rows releases the GIL once.
    """
    # Without spaces: apsw does not cache a prepared statement whose text is longer than 16 kB.
    return _ROW.sub(lambda row: f"VALUES {','.join([row[1].replace(' ', '')] * count)}", QUERIES[name])


def decode_as(text: str, kind: type[T]) -> T:
    """Decode a JSON text as a type."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    found: T = decoder.decode(text)
    return found


def as_json(value: Any) -> str:
    """Return plain values as one JSON text."""
    return _encode(value).decode()


class TaskRecord(msgspec.Struct, array_like=True, frozen=True):
    """A task as a query returns it."""

    url: str | None
    step: str
    payload: str | None
    key: str | None
    partition: str
    priority: int
    ttl: int | None
    delay: int | None
    depth: int

    def task(self) -> Task:
        payload, options = read_payload(self.payload)
        return Task(
            url=self.url,
            step=self.step,
            payload=payload,
            key=self.key,
            partition=self.partition,
            priority=self.priority,
            ttl=optional_duration(self.ttl),
            delay=ZERO if self.delay is None else duration(self.delay),
            depth=self.depth,
            request=options,
        )
