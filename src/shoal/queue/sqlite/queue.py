"""The SQLite backend: a verb is one function that runs in the writer's or the reader's thread."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from shoal.core.model import (
    DeadFilter,
    DeadLetter,
    Durability,
    EnqueueReport,
    ExpiredTask,
    HostStatus,
    Run,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
)
from shoal.queue.address import sqlite_file
from shoal.queue.contract import Queue
from shoal.queue.intake import QueuedTask
from shoal.queue.paging import number_in, page_sizes
from shoal.queue.requests import EditFate, LetterEdit, OnInvalid, Tasks
from shoal.queue.schema import SchemaVersions
from shoal.queue.sqlite import (
    claim,
    dead_letters,
    enqueue,
    hosts,
    leases,
    notes,
    reports,
    runs,
    settle,
    task_list,
)
from shoal.queue.sqlite.connection import (
    BUSY_TIMEOUT,
    ConnectionThread,
    ReadHandler,
    SqliteAddress,
    WriteHandler,
    connect,
    migrate,
    scripts,
)
from shoal.queue.sqlite.reports import PAGE
from shoal.queue.sqlite.store import Page, Store

MAX_PURGE_PAUSE = 0.1  # seconds between two batches of a purge

P = ParamSpec("P")
T = TypeVar("T")
Position = TypeVar("Position")


def utc_now() -> datetime:
    """Return the current time of this machine."""
    return datetime.now(UTC)


def verb(
    function: Callable[Concatenate[Store, P], T], *, reads: bool = False
) -> Callable[Concatenate["SqliteQueue", P], Coroutine[Any, Any, T]]:
    """Return the method that runs this function in the writer's thread, or in the reader's."""

    async def call(queue: "SqliteQueue", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await queue.thread(reads=reads).call(function, *args, **kwargs)

    return call


class SqliteQueue(Queue):
    """A queue in one file, shared by the processes of one machine."""

    enqueue_batch = enqueue.BATCH

    def __init__(self, address: SqliteAddress, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._synchronous = address.synchronous
        self._writer = ConnectionThread(WriteHandler(address, now))
        self._reader = ConnectionThread(ReadHandler(address, now))

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        now: Callable[[], datetime] = utc_now,
        synchronous: str = "normal",
        patience: timedelta = BUSY_TIMEOUT,
    ) -> "SqliteQueue":
        """Open the queue in this file, which is created if necessary.

        What a call has returned survives a crash of the process, and with `synchronous="full"` a power cut.
        `patience` is how long to wait while other processes write.
        """
        queue = cls(SqliteAddress(Path(path).absolute(), synchronous, patience), now)
        try:
            await queue._writer.open()
            await queue.migrate()
            await queue._reader.open()
        except BaseException:
            await queue.close()
            raise
        return queue

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def migrate(self) -> int:
        return await self._writer.call(migrate)

    def thread(self, *, reads: bool) -> ConnectionThread:
        """Return the thread that a call belongs to."""
        return self._reader if reads else self._writer

    # Tasks in, leases out, outcomes back

    _enqueue = verb(enqueue.enqueue)
    _claim = verb(claim.claim)
    _settle = verb(settle.settle)
    _extend = verb(leases.extend)
    _extend_worker = verb(leases.extend_worker)
    _abandon = verb(leases.abandon)
    _beat = verb(runs.beat)

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        return await super().enqueue(run_id, enqueue.yield_gil(tasks), on_invalid=on_invalid)

    async def reclaim(self) -> int:
        count, more = 0, True
        while more:
            lost, more = await self._writer.call(leases.reclaim)
            count += lost
        return count

    # Runs

    _start_run = verb(runs.start)
    now = verb(Store.moment, reads=True)
    _steer = verb(runs.steer)
    _change_run = verb(runs.change)

    run = verb(runs.get, reads=True)
    stats = verb(runs.stats, reads=True)
    workers = verb(runs.workers, reads=True)

    async def runs(self) -> Sequence[Run]:
        return await self._reader.call(runs.list_all)

    async def _purge(self, run_id: str) -> None:
        await self._writer.call(runs.purge, run_id)
        began = time.monotonic()
        while await self._writer.call(runs.clear_purged):
            # SQLite does not serve its writers in turn: without a pause, workers would wait for many batches.
            await asyncio.sleep(min(time.monotonic() - began, MAX_PURGE_PAUSE))
            began = time.monotonic()

    async def forget(self, scraper: str) -> int:
        count, after = 0, enqueue.FIRST_KEY
        while page := await self._writer.call(enqueue.forget_known, scraper, after):
            count, after = count + page[0], page[1]
        return count

    # Hosts

    pause_host = verb(hosts.pause_host)
    slow_host = verb(hosts.slow_host)
    take_turn = verb(hosts.take_turn)

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return self._stream(after or "", PAGE, hosts.list_hosts, run_id)

    # Dead letters

    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int:
        return await self._apply_to_letters(partial(dead_letters.replay, delay=delay), run_id, ids, where)

    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int:
        return await self._apply_to_letters(dead_letters.drop, run_id, ids, where)

    async def _apply_to_letters(
        self, action: dead_letters.LetterAction, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter
    ) -> int:
        """Replay or drop dead letters in batches."""
        count = after = 0
        if ids is None:
            # Only up to the newest one of now: a task that dies again meanwhile is not replayed twice.
            until = await self._reader.call(dead_letters.last_letter, run_id)
            while after < until:
                applied, after = await self._writer.call(
                    dead_letters.apply_to_page, action, run_id, after, until, where
                )
                count += applied
            return count
        for start in range(0, max(1, len(ids)), dead_letters.BATCH):
            some = ids[start : start + dead_letters.BATCH]
            count += await self._writer.call(dead_letters.apply_to_ids, action, run_id, some, where)
        return count

    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
        fates: list[EditFate] = []
        for start in range(0, len(edits), dead_letters.BATCH):
            some = edits[start : start + dead_letters.BATCH]
            fates += await self._writer.call(dead_letters.edit, run_id, some)
        return fates

    def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        if ids is None:
            return self._stream(number_in(after), PAGE, dead_letters.dead_letters, run_id, where)
        return self._stream(number_in(after), PAGE, dead_letters.dead_letters_by_id, run_id, where, ids)

    # Lists

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return self._stream(after, PAGE, reports.items, run_id, step)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return self._stream(after, PAGE, reports.rejects, run_id, step)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return self._stream(number_in(after), PAGE, reports.expired, run_id)

    async def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]:
        wanted = None if states is None else list(states)
        if cursor := task_list.read_cursor(after, task_list.tables_of(wanted)):
            async for status in self._stream(cursor, task_list.PAGE, task_list.tasks, run_id, step, wanted):
                yield status

    async def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        wanted = None if states is None else list(states)
        for status in await self._reader.call(task_list.tasks_by_id, run_id, ids, step, wanted):
            yield status

    _entered = verb(task_list.entered, reads=True)

    async def _stream(
        self,
        after: Position,
        max_size: int,
        page: Callable[Concatenate[Store, Position, int, P], Page[Position, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> AsyncIterator[T]:
        """Read page after page, each after the last one."""
        position: Position | None = after
        sizes = page_sizes(max_size)
        while position is not None:
            position, rows = await self._reader.call(page, position, next(sizes), *args, **kwargs)
            for row in rows:
                yield row

    # Notes

    _read_notes = verb(notes.read, reads=True)
    _write_notes = verb(notes.write)
    _swap_note = verb(notes.swap)
    _trim_notes = verb(notes.trim)
    _notes_size = verb(notes.size, reads=True)

    # The store

    size = verb(reports.store_size, reads=True)

    async def durability(self) -> Durability:
        if self._synchronous == "full":
            return Durability(True, "Data is on the disk before each reply, so a crash costs nothing.")
        return Durability(
            False,
            "A crash of a process costs nothing; a power cut can cost the last moments. "
            "To prevent that, add ?synchronous=full to the address of the queue: sqlite:///FILE?synchronous=full",
        )


async def open_address(url: str, patience: timedelta) -> SqliteQueue:
    """Open the queue at an address."""
    path, synchronous = sqlite_file(url)
    return await SqliteQueue.open(path, synchronous=synchronous, patience=patience)


async def read_schema(url: str, patience: timedelta) -> SchemaVersions:
    """Read the version of the schema, and migrate nothing."""
    path, newest = Path(sqlite_file(url)[0]).absolute(), max(scripts())
    if not path.exists():
        return SchemaVersions(0, newest)
    connection = connect(SqliteAddress(path, busy_timeout=patience))
    try:
        return SchemaVersions(connection.pragma("user_version"), newest)
    finally:
        connection.close()
