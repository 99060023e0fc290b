"""The test bench of every backend: an open queue and a clock that can be moved."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from shoal.queue.contract import Queue
from tests.conformance.model import ModelQueue

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)

# A table's own rows only, because a partitioned one would be shifted twice.
_TIME_COLUMNS = """
    SELECT format('UPDATE ONLY %s SET %s', c.oid::regclass,
                  string_agg(format(CASE WHEN a.attndims > 0
                                         THEN '%1$I = ARRAY(SELECT one - $1::interval FROM unnest(%1$I) one)'
                                         ELSE '%1$I = %1$I - $1::interval' END, a.attname), ', '))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'shoal'::regnamespace AND c.relkind = 'r'
      AND a.atttypid IN ('timestamptz'::regtype, 'timestamptz[]'::regtype)
      AND NOT a.attisdropped AND a.attgenerated = ''
    GROUP BY c.oid
"""
_shifts: dict[str, list[str]] = {}  # by the address of the database: how its times are shifted


class Clock(Protocol):
    """The store's clock, controlled by a test."""

    def now(self) -> datetime:
        """Return the store's time."""

    def passed(self) -> timedelta:
        """Return how much time has passed at the store; a real clock also runs by itself."""

    async def forward(self, delta: timedelta) -> None:
        """Let this much time pass."""


class VirtualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self._now = NOON

    def now(self) -> datetime:
        return self._now

    def passed(self) -> timedelta:
        return self._now - NOON

    async def forward(self, delta: timedelta) -> None:
        self._now += delta


class SkewedClock:
    """A server's clock, to which a queue adds an offset."""

    def __init__(self) -> None:
        self.skew = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.skew

    def passed(self) -> timedelta:
        return _uptime() + self.skew

    async def forward(self, delta: timedelta) -> None:
        self.skew += delta


class ServerClock:
    """A PostgreSQL server's clock: it cannot be moved, so all stored times are moved into the past."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None
        self._shifted = timedelta(0)
        self.queues: list[Any] = []

    def now(self) -> datetime:
        return datetime.now(UTC)

    def passed(self) -> timedelta:
        return _uptime() + self._shifted

    async def forward(self, delta: timedelta) -> None:
        self._shifted += delta
        if self._pool is None:
            await self._connect()
        async with self._pool.acquire() as connection, connection.transaction():
            if self._url not in _shifts:
                _shifts[self._url] = [row[0] for row in await connection.fetch(_TIME_COLUMNS)]
            assert _shifts[self._url], "the schema shoal has no column of type timestamptz to shift"
            for shift in _shifts[self._url]:
                await connection.execute(shift, delta)
        for queue in self.queues:
            queue._floors.clear()  # times that claims have cached; they have just been moved

    async def _connect(self) -> None:
        import asyncpg

        # A pooler such as PgBouncer keeps no prepared statements.
        self._pool = await asyncpg.create_pool(self._url, min_size=0, max_size=1, statement_cache_size=0)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def _uptime() -> timedelta:
    return timedelta(seconds=time.monotonic())


@dataclass
class Bench:
    """A queue under test and its clock; `open` is None if the store does not outlive its queue."""

    queue: Queue
    clock: Clock
    open: Callable[[], Awaitable[Queue]] | None = None

    async def restart(self) -> Queue:
        """Close the queue and open the same store again."""
        assert self.open, "this backend keeps nothing"
        await self.queue.close()
        self.queue = await self.open()
        return self.queue


@dataclass(frozen=True)
class StoreUnderTest:
    """A backend and the location of a test's store."""

    backend: str
    folder: Path
    url: str = ""

    @property
    def address(self) -> str:
        """The URL for `open_queue`, for processes that share the store with the test."""
        return self.url or f"sqlite:///{self.folder / 'queue.db'}"

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return BACKENDS[self.backend](self)


@asynccontextmanager
async def _model(store: StoreUnderTest) -> AsyncIterator[Bench]:
    clock = VirtualClock()
    yield Bench(ModelQueue(clock.now), clock)


@asynccontextmanager
async def _sqlite(store: StoreUnderTest) -> AsyncIterator[Bench]:
    from shoal.queue.sqlite.queue import SqliteQueue

    clock = VirtualClock()

    async def open_queue() -> Queue:
        return await SqliteQueue.open(store.folder / "queue.db", now=clock.now)

    bench = Bench(await open_queue(), clock, open_queue)
    try:
        yield bench
    finally:
        await bench.queue.close()


@asynccontextmanager
async def _postgres(store: StoreUnderTest) -> AsyncIterator[Bench]:
    from shoal.queue.postgres.queue import PostgresQueue

    clock = ServerClock(store.url)

    async def open_queue() -> Queue:
        queue = await PostgresQueue.open(store.url)
        clock.queues.append(queue)
        return queue

    bench = Bench(await open_queue(), clock, open_queue)
    try:
        yield bench
    finally:
        await bench.queue.close()
        await clock.close()


@asynccontextmanager
async def _redis(store: StoreUnderTest) -> AsyncIterator[Bench]:
    from shoal.queue.redis.queue import RedisQueue

    clock = SkewedClock()

    async def open_queue() -> Queue:
        return await RedisQueue.open(store.url, skew=lambda: clock.skew)

    bench = Bench(await open_queue(), clock, open_queue)
    try:
        yield bench
    finally:
        await bench.queue.close()


@asynccontextmanager
async def _rabbitmq(store: StoreUnderTest) -> AsyncIterator[Bench]:
    from shoal.queue.rabbitmq.queue import RabbitQueue

    clock = SkewedClock()

    async def open_queue() -> Queue:
        return await RabbitQueue.open(store.url, skew=lambda: clock.skew)

    bench = Bench(await open_queue(), clock, open_queue)
    try:
        yield bench
    finally:
        for run in await bench.queue.runs():  # the broker serves all tests, and must not fill up with queues
            await bench.queue.purge(run.id)
        await bench.queue.close()


BACKENDS: dict[str, Callable[[StoreUnderTest], AbstractAsyncContextManager[Bench]]] = {
    "model": _model,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
    "rabbitmq": _rabbitmq,
    "pgbouncer": _postgres,
    "redis-cluster": _redis,
    "valkey": _redis,
}

# Where the tests run: on each implementation of the rules, unless a file is named here or a test is marked.
# `make test-full` runs all of them on every store.
IMPLEMENTATIONS = ("model", "sqlite", "postgres", "redis")
# PgBouncer differs from PostgreSQL in its connections; `integration/postgres/test_pgbouncer.py` has more.
POOLED = ("test_cancellation", "test_state_machine")
# A cluster differs from Redis in that the tasks of a run are in several slots, which calls and lists join.
SPREAD = (
    *("test_abandon", "test_cursors", "test_dedup", "test_edit", "test_expiry", "test_extend_worker"),
    *("test_namespaces", "test_state_machine", "test_stats", "test_tasks"),
)
# RabbitMQ runs the scripts of Redis, and has the tasks that wait in the broker.
BROKERED = (
    *("test_abandon", "test_cancellation", "test_claim", "test_dead", "test_dedup", "test_edit"),
    *("test_enqueue", "test_expiry", "test_leases", "test_namespaces", "test_runs", "test_settle"),
    *("test_state_machine", "test_tasks"),
)
# These use a queue as workers and commands do: one file and one server are enough.
USERS = ("test_revisits", "test_run_hooks", "test_schedules")

LONG = ("pgbouncer", "redis-cluster")  # of the long tier
CHOSEN = os.environ.get("SHOAL_TEST_BACKENDS", "").split()  # all tests run on these, and on no other
Test = TypeVar("Test", bound=Callable[..., Any])


def only_on(*names: str) -> Callable[[Test], Test]:
    """Run a test on these stores."""

    def mark(test: Test) -> Test:
        test.stores = names  # type: ignore[attr-defined]
        return test

    return mark


def every_store(test: Test) -> Test:
    """Run a test on every store, as each `test_promise_` does: `docs/explanation/guarantees.md` names it."""
    return only_on(*IMPLEMENTATIONS, "rabbitmq", *LONG)(test)


# The contract decides it before a backend is called, and so for all of them.
by_contract = only_on("model")


def lasting(test: Test) -> Test:
    """Run a test of what outlives a queue object on each implementation that stores something."""
    test.lasts = True  # type: ignore[attr-defined]
    return test


def stores_of(module: str, name: str, test: Any) -> list[Any]:
    """Return the stores that a test runs on, as values of a parameter."""
    chosen = CHOSEN or getattr(test, "stores", None) or _stores_of_file(module, name)
    stores = [one for one in chosen if not (one == "model" and hasattr(test, "lasts"))]
    return [
        pytest.param(one, marks=pytest.mark.long) if one in LONG and not CHOSEN else one for one in stores
    ]


def _stores_of_file(module: str, name: str) -> Sequence[str]:
    if module in USERS:
        return "sqlite", "postgres"
    is_promise = name.startswith("test_promise_")
    more = {"rabbitmq": BROKERED, "pgbouncer": POOLED, "redis-cluster": SPREAD}
    return *IMPLEMENTATIONS, *(store for store, files in more.items() if is_promise or module in files)
