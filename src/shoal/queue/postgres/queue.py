"""The PostgreSQL backend: a verb is a query, or one call of a function of the schema."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from shoal.core.model import (
    Durability,
    EnqueueReport,
    Fate,
    Grant,
    TaskState,
    TaskStatus,
)
from shoal.queue.contract import Queue, StoreSize
from shoal.queue.intake import PreparedOutcome, QueuedTask
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.postgres.claim import ClaimFloors, claim, find_floors
from shoal.queue.postgres.dead_letters import PostgresDeadLetters
from shoal.queue.postgres.enqueue import enqueue, forget
from shoal.queue.postgres.leases import PostgresLeases
from shoal.queue.postgres.migrate import NEWEST, migrate, version
from shoal.queue.postgres.notes import PostgresNotes
from shoal.queue.postgres.reports import PostgresReports
from shoal.queue.postgres.runs import PostgresRuns
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.settle import settle
from shoal.queue.postgres.sql import QUERIES, call
from shoal.queue.postgres.task_list import PostgresTaskList
from shoal.queue.requests import ClaimRequest
from shoal.queue.schema import SchemaVersions

PAUSE_HOST = call("pause_host", "text", "interval")
SLOW_HOST = call("slow_host", "text", "interval")
TAKE_TURN = call("take_turn", "text", "interval")


class PostgresQueue(PostgresRuns, PostgresLeases, PostgresDeadLetters, PostgresReports, PostgresNotes, Queue):
    """A queue in a PostgreSQL database, for any number of workers on any number of machines."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        self._server = server
        self._floors: dict[Any, ClaimFloors] = {}

    @classmethod
    async def open(cls, url: str, *, patience: timedelta = RETRY_TIMEOUT) -> Self:
        """Connect and migrate the schema; raises QueueUnavailable after `patience`."""
        server = PostgresServer(url, patience=patience)
        await server.open()
        try:
            await migrate(server)
        except BaseException:
            await server.close()
            raise
        return cls(server)

    async def close(self) -> None:
        await self._server.close()

    async def migrate(self) -> int:
        return await migrate(self._server)

    # Tasks in, leases out, outcomes back

    async def _enqueue(self, run_id: str, tasks: Sequence[QueuedTask]) -> EnqueueReport:
        return await enqueue(self._server, run_id, tasks)

    async def _claim(self, request: ClaimRequest) -> Grant:
        return await claim(self._server, request, find_floors(self._floors, request))

    async def _settle(self, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
        return await settle(self._server, outcomes)

    # Runs and hosts

    async def now(self) -> datetime:
        now: datetime = await self._server.value("SELECT clock_timestamp()")
        return now

    async def forget(self, scraper: str) -> int:
        return await forget(self._server, scraper)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.fetch(PAUSE_HOST, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.fetch(SLOW_HOST, host, delay)

    async def take_turn(self, host: str, gap: timedelta) -> timedelta:
        wait: timedelta = (await self._server.fetch(TAKE_TURN, host, gap))[0][0]
        return wait

    # Lists of tasks

    def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]:
        return PostgresTaskList(self._server, run_id, step, None).tasks(states, after)

    def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        return PostgresTaskList(self._server, run_id, step, ids).tasks(states)

    # The store

    async def durability(self) -> Durability:
        for setting in ("fsync", "full_page_writes"):
            if not await self._server.value("SELECT current_setting($1)::bool", setting):
                cost = "a power cut can cost the whole database; turn it on."
                return Durability(False, f"The server has {setting} off, so {cost}")
        if await self._server.value("SELECT current_setting('synchronous_commit')") == "off":
            return Durability(
                False, "The server has synchronous_commit off, so a crash can cost the last moments."
            )
        return Durability(True, "Data is on the server's disk before each reply, so a crash costs nothing.")

    async def size(self) -> StoreSize:
        used = await self._server.value(QUERIES["store_size"], self._server.schema.strip('"'))
        return StoreSize(int(used), f"the tables and indexes of schema {self._server.schema}")


async def open_address(url: str, patience: timedelta) -> PostgresQueue:
    """Open the queue at an address."""
    return await PostgresQueue.open(url, patience=patience)


async def read_schema(url: str, patience: timedelta) -> SchemaVersions:
    """Read the version of the schema, and migrate nothing."""
    server = PostgresServer(url, patience=patience)
    await server.open()
    try:
        return SchemaVersions(await version(server), NEWEST)
    finally:
        await server.close()
