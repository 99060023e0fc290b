"""The PostgreSQL backend: a verb is a query, or one call of a function of the schema."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from shoal.core.errors import UnknownRun
from shoal.core.model import (
    DeadFilter,
    DeadLetter,
    Durability,
    EnqueueReport,
    ExpiredTask,
    Fate,
    Grant,
    HostStatus,
    Lease,
    Note,
    Run,
    RunSettings,
    RunState,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.contract import NotesSize, Queue, StoreSize
from shoal.queue.intake import PreparedOutcome, QueuedTask
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.postgres import dead_letters, leases, notes, reports, runs
from shoal.queue.postgres.claim import ClaimFloors, claim, find_floors
from shoal.queue.postgres.enqueue import enqueue, forget
from shoal.queue.postgres.migrate import migrate
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.settle import settle
from shoal.queue.postgres.sql import QUERIES, call
from shoal.queue.postgres.task_list import PostgresTaskList
from shoal.queue.requests import ClaimRequest, EditFate, LetterEdit

PAUSE_HOST = call("pause_host", "text", "interval")
SLOW_HOST = call("slow_host", "text", "interval")


class PostgresQueue(Queue):
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
        try:
            return await claim(self._server, request, find_floors(self._floors, request))
        except UnknownRun:
            await self.run(request.run_id)  # raises the same error with the nearest run id
            raise

    async def _settle(self, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
        return await settle(self._server, outcomes)

    async def _extend(self, held: Sequence[Lease], lease: timedelta) -> list[Fate]:
        return await leases.extend(self._server, held, lease)

    async def _extend_worker(self, worker_id: str, lease: timedelta) -> int:
        return int(await self._server.value(QUERIES["extend_worker"], worker_id, lease))

    async def reclaim(self) -> int:
        return await leases.reclaim(self._server)

    async def _abandon(self, worker_id: str, once: Sequence[str], reason: str) -> int:
        return await leases.abandon(self._server, worker_id, once, reason)

    async def _beat(self, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
        await runs.beat(self._server, run_id, beats)

    # Runs

    async def _start_run(self, scraper: str, settings: RunSettings, run_id: str) -> Run:
        return await runs.start_run(self._server, scraper, settings, run_id)

    async def _now(self) -> datetime:
        now: datetime = await self._server.value("SELECT clock_timestamp()")
        return now

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        return await runs.steer(self._server, run_id, state, reason)

    async def _change_run(self, run: Run, settings: RunSettings) -> Run:
        return await runs.change(self._server, run, settings)

    async def _purge(self, run_id: str) -> None:
        await runs.purge(self._server, run_id)

    async def forget(self, scraper: str) -> int:
        return await forget(self._server, scraper)

    async def run(self, run_id: str) -> Run:
        return await runs.find_run(self._server, run_id)

    async def runs(self) -> Sequence[Run]:
        return await runs.all_runs(self._server)

    async def stats(self, run_id: str) -> Stats:
        return await runs.stats(self._server, run_id)

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        return await runs.workers(self._server, run_id)

    # Hosts

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.fetch(PAUSE_HOST, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.fetch(SLOW_HOST, host, delay)

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return reports.hosts(self._server, run_id, after)

    # Dead letters

    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int:
        await self.run(run_id)  # raises with the nearest run id if there is none
        return await dead_letters.replay(self._server, run_id, ids, where, delay)

    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int:
        await self.run(run_id)
        return await dead_letters.drop(self._server, run_id, ids, where)

    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
        return await dead_letters.edit(self._server, run_id, edits)

    def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        if ids is None:
            return dead_letters.dead_letters(self._server, run_id, where, after)
        return dead_letters.dead_letters_by_id(self._server, run_id, ids, where, after)

    # Lists

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return reports.items(self._server, run_id, step, after)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return reports.rejects(self._server, run_id, step, after)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return reports.expired(self._server, run_id, after)

    def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]:
        return PostgresTaskList(self._server, run_id, step, None).tasks(states, after)

    def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        return PostgresTaskList(self._server, run_id, step, ids).tasks(states)

    async def _entered(self, run_id: str, ids: Sequence[bytes]) -> set[str]:
        return await reports.entered(self._server, run_id, ids)

    # Notes

    async def _read_notes(self, topic: str, keys: Iterable[str] | None) -> dict[str, Note]:
        return await notes.read(self._server, topic, keys)

    async def _write_notes(
        self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
    ) -> None:
        await notes.write(self._server, topic, values, ttl)

    async def _swap_note(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None:
        return await notes.swap(self._server, topic, key, value, stamp, ttl)

    async def _trim_notes(self, topic: str, max_bytes: int) -> int:
        return await notes.trim(self._server, topic, max_bytes)

    async def _notes_size(self, topic: str) -> NotesSize:
        return await notes.size(self._server, topic)

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
