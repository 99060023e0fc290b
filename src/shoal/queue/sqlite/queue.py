"""The SQLite backend of the queue contract."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from shoal.core.errors import UnknownRun
from shoal.core.failures import error_text
from shoal.core.model import (
    NOTHING,
    DeadFilter,
    DeadLetter,
    Done,
    Durability,
    EnqueueReport,
    ExpiredTask,
    Fate,
    Grant,
    HostStatus,
    Lease,
    Note,
    Outcome,
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
from shoal.queue.contract import (
    DEFAULT_LEASE,
    EditFate,
    Fence,
    LetterEdit,
    OnInvalid,
    Queue,
    RunLimits,
    StoreSize,
    Tasks,
)
from shoal.queue.cursors import check_keys, numbers_of, page_sizes, parts_of
from shoal.queue.intake import Intake, encode_item, ids_of
from shoal.queue.rules import check_claim, check_new_notes, check_notes, check_run, check_trim, known_ids
from shoal.queue.sqlite import admin, notes, read, runs, task_list
from shoal.queue.sqlite.admin import BATCH as LETTER_BATCH
from shoal.queue.sqlite.admin import LetterAction
from shoal.queue.sqlite.connection import BUSY_TIMEOUT, ReadHandler, SqliteAddress, WriteHandler
from shoal.queue.sqlite.edit import edit
from shoal.queue.sqlite.migrate import migrate
from shoal.queue.sqlite.read import PAGE, Page
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.thread import ConnectionThread
from shoal.queue.sqlite.work import known, settle, sweep
from shoal.queue.sqlite.work.claim import SqliteClaimRequest, claim
from shoal.queue.sqlite.work.enqueue import BATCH, EnqueuePipeline, yield_gil

P = ParamSpec("P")
T = TypeVar("T")
Position = TypeVar("Position")
MAX_PURGE_PAUSE = 0.1  # seconds between two batches of a purge


def utc_now() -> datetime:
    """Return the current time of this machine."""
    return datetime.now(UTC)


class SqliteQueue(Queue):
    """A queue in one file, shared by the processes of one machine."""

    def __init__(self, address: SqliteAddress, now: Callable[[], datetime]) -> None:
        self._synchronous = address.synchronous
        self._writer = ConnectionThread(WriteHandler(address, now))
        self._reader = ConnectionThread(ReadHandler(address, now))
        self._intakes: dict[str, Intake] = {}

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
        await queue._open()
        return queue

    async def _open(self) -> None:
        try:
            await self._writer.open()
            await self.migrate()
            await self._reader.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def migrate(self) -> int:
        return await self._writer.call(migrate)

    async def durability(self) -> Durability:
        if self._synchronous == "full":
            return Durability(True, "Every answer is on the disk first, so a crash costs nothing.")
        return Durability(
            False,
            "A crash of a process costs nothing; a power cut can cost the last moments. "
            "?synchronous=full ends that.",
        )

    async def size(self) -> StoreSize:
        return await self._reader.call(read.store_size)

    # Runs

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        self._intakes.pop(run_id or "", None)
        return await self._writer.call(runs.start, scraper, settings, run_id)

    async def run(self, run_id: str) -> Run:
        return await self._reader.call(runs.get, run_id)

    async def runs(self) -> Sequence[Run]:
        return await self._reader.call(runs.list_all)

    async def pause(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._writer.call(runs.steer, run_id, RunState.CANCELLED)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        return await self._writer.call(runs.change, run_id, limits)

    async def purge(self, run_id: str) -> None:
        self._intakes.pop(run_id, None)
        await self._writer.call(runs.purge, run_id)
        began = time.monotonic()
        while await self._writer.call(runs.clear_purged):
            # SQLite does not serve its writers in turn: without a pause, workers would wait for many batches.
            await asyncio.sleep(min(time.monotonic() - began, MAX_PURGE_PAUSE))
            began = time.monotonic()

    # Work

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        run = await self.run(run_id)
        invalid_count = 0
        async with EnqueuePipeline(self._writer, run_id) as pipeline:
            intake = Intake(run_id, run.settings, run.scraper)
            batches = intake.batches(yield_gil(tasks), on_invalid, BATCH)
            async for batch, invalid in batches:
                invalid_count += invalid
                await pipeline.add(batch)
        return pipeline.report + EnqueueReport(invalid=invalid_count)

    async def forget(self, scraper: str) -> int:
        count, after = 0, known.FIRST
        while page := await self._writer.call(known.forget, scraper, after):
            count, after = count + page[0], page[1]
        return count

    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        fence: Fence | None = None,
    ) -> Grant:
        check_claim(limit, lease, fence)
        request = SqliteClaimRequest(worker_id, run_id, limit, lease, steps, partitions, fence)
        return await self._writer.call(claim, request)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        run_ids = {one.lease.run_id for one in outcomes if isinstance(one, Done) and one.follow}
        intakes = {run_id: await self._intake(run_id) for run_id in run_ids}
        return await self._writer.call(settle.settle, settle.prepare(outcomes, intakes))

    async def _intake(self, run_id: str) -> Intake:
        """Return a run's intake, also for a purged run: its outcomes are stale, not errors."""
        if run_id not in self._intakes:
            try:
                run = await self.run(run_id)
            except UnknownRun:
                return Intake(run_id, RunSettings())
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        return await self._writer.call(settle.extend, leases, lease)

    async def reclaim(self) -> int:
        count, more = 0, True
        while more:
            lost, more = await self._writer.call(sweep.reclaim)
            count += lost
        return count

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        return await self._writer.call(admin.abandon, worker_id, list(once), error_text(reason))

    # Reports

    async def stats(self, run_id: str) -> Stats:
        return await self._reader.call(read.stats, run_id)

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return self._stream(after, PAGE, read.items, run_id, step)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return self._stream(after, PAGE, read.rejects, run_id, step)

    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        if ids is not None:
            return self._stream(
                _read_number(after), PAGE, read.dead_letters_by_id, run_id, where, known_ids(ids)
            )
        return self._stream(_read_number(after), PAGE, read.dead_letters, run_id, where)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return self._stream(_read_number(after), PAGE, read.expired, run_id)

    async def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        check_keys(keys, after)
        run, wanted = await self.run(run_id), None if states is None else list(states)
        if keys is not None:
            ids = ids_of(run, step, keys, (await self.stats(run_id)).steps)
            for status in await self._reader.call(task_list.tasks_by_id, run_id, ids, step, wanted):
                yield status
        elif cursor := task_list.read_cursor(after, task_list.tables_of(wanted)):
            async for status in self._stream(cursor, task_list.PAGE, task_list.tasks, run_id, step, wanted):
                yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await self._reader.call(task_list.entered, run_id, known_ids(ids))

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

    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_letters(admin.replay, run_id, ids, where)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_letters(admin.drop, run_id, ids, where)

    async def _apply_to_letters(
        self, action: LetterAction, run_id: str, ids: Sequence[str] | None, where: DeadFilter
    ) -> int:
        """Replay or drop dead letters in batches."""
        if ids is None:
            return await self._apply_to_all(action, run_id, where)
        count = 0
        for start in range(0, max(1, len(ids)), LETTER_BATCH):
            some = ids[start : start + LETTER_BATCH]
            count += await self._writer.call(admin.apply_to_ids, action, run_id, some, where)
        return count

    async def _apply_to_all(self, action: LetterAction, run_id: str, where: DeadFilter) -> int:
        # Only up to the newest one of now: a task that dies again meanwhile is not replayed twice.
        until = await self._reader.call(admin.last_letter, run_id)
        count = after = 0
        while after < until:
            applied, after = await self._writer.call(admin.apply_to_page, action, run_id, after, until, where)
            count += applied
        return count

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        entries = (await self._intake(run_id)).edited(edits) if edits else []
        pairs, fates = list(zip(edits, entries, strict=True)), list[EditFate]()
        for start in range(0, max(1, len(pairs)), LETTER_BATCH):
            fates += await self._writer.call(edit, run_id, pairs[start : start + LETTER_BATCH])
        return fates

    # Hosts and workers

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return self._stream(after or "", PAGE, read.hosts, run_id)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._writer.call(admin.pause_host, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._writer.call(admin.slow_host, host, delay)

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        await self._writer.call(admin.beat, worker_id, run_id, state, encode_item(dict(info)))

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        return await self._reader.call(read.workers, run_id)

    # Notes

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        return await self._reader.call(notes.read, topic, keys)

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        await self._writer.call(notes.write, topic, values, ttl)

    async def swap_note(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        *,
        stamp: int | None,
        ttl: timedelta | None = None,
    ) -> Note | None:
        check_new_notes(topic, {key: value}, ttl)
        return await self._writer.call(notes.swap, topic, key, value, stamp, ttl)

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        return await self._writer.call(notes.trim, topic, max_bytes)


def _read_number(after: str | None) -> int:
    return 0 if after is None else numbers_of(after, parts_of(after, 1))[0]
