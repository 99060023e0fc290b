"""The PostgreSQL backend: each verb of the queue contract is one call of a database function."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

from shoal.core.errors import RunConflict, UnknownRun
from shoal.core.failures import error_text
from shoal.core.model import (
    NOTHING,
    SECOND,
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
from shoal.core.pacing import BURST_HORIZON
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
from shoal.queue.cursors import check_keys
from shoal.queue.intake import Intake, QueuedTask, encode_item, ids_of
from shoal.queue.postgres import notes, read, sql
from shoal.queue.postgres.change import change_limits
from shoal.queue.postgres.durability import durability
from shoal.queue.postgres.edit import edit
from shoal.queue.postgres.migrate import migrate
from shoal.queue.postgres.purge import clear_purged, purge
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.task_list import PostgresTaskList
from shoal.queue.postgres.tracebacks import add_tracebacks
from shoal.queue.postgres.wire import (
    entry_columns,
    filter_columns,
    lease_from,
    outcome_columns,
    run_from,
    scraper_keys,
)
from shoal.queue.rules import (
    STEERED_FROM,
    changed_settings,
    check_claim,
    check_new_notes,
    check_notes,
    check_run,
    check_trim,
    free_run_id,
    in_runs,
    known_ids,
    steered,
)

RETRY_TIMEOUT = 30 * SECOND
BATCH = 1_000  # rows of one call of a sweep
FLOORS_TTL = 10.0  # seconds


class PostgresQueue(Queue):
    """A queue in a PostgreSQL database, for any number of workers on any number of machines."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._intakes: dict[str, Intake] = {}
        self._floors: dict[tuple[Any, ...], _Floors] = {}

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

    async def durability(self) -> Durability:
        return await durability(self._server)

    async def size(self) -> StoreSize:
        used = await self._server.value(sql.QUERIES["store_size"], self._server.schema.strip('"'))
        return StoreSize(int(used), f"the tables and indexes of schema {self._server.schema}")

    # Runs

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        if run_id is None:
            run_id = await free_run_id(await self._server.value("SELECT clock_timestamp()"), self._has_run)
        await self._server.fetch(
            sql.QUERIES["start_run"],
            run_id,
            scraper,
            settings.host_delay,
            settings.per_host,
            settings.max_attempts,
            settings.ttl,
            settings.dedup,
            list(settings.dedup_steps),
        )
        run = await self.run(run_id)
        if run.scraper != scraper:
            raise RunConflict.of_another(run_id, run.scraper, scraper)
        return run

    async def _has_run(self, run_id: str) -> bool:
        return bool(await self._server.fetch(sql.QUERIES["runs"], run_id))

    async def run(self, run_id: str) -> Run:
        rows = await self._server.fetch(sql.QUERIES["runs"], run_id)
        if not rows:
            raise UnknownRun(run_id, [run.id for run in await self.runs()])
        return run_from(rows[0])

    async def runs(self) -> Sequence[Run]:
        rows = await self._server.fetch(sql.QUERIES["runs"], None)
        return [run_from(row) for row in rows]

    async def pause(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._steer(run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._steer(run_id, RunState.CANCELLED)

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        await self._server.fetch(sql.QUERIES["steer"], run_id, state, reason, list(STEERED_FROM[state]))
        return steered(await self.run(run_id), state)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        run = await self.run(run_id)
        await change_limits(self._server, run, changed_settings(run, limits))
        return await self.run(run_id)

    async def purge(self, run_id: str) -> None:
        await self.run(run_id)
        self._intakes.pop(run_id, None)
        await purge(self._server, run_id)

    # Work

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        intake = await self._intake(run_id)
        report = EnqueueReport()
        storing: asyncio.Task[EnqueueReport] | None = None
        # The next batch is prepared while the server stores the last one.
        async for batch, invalid in intake.batches(tasks, on_invalid):
            report += EnqueueReport(invalid=invalid)
            if storing:
                report += await storing
            storing = asyncio.create_task(self._send_batch(run_id, batch))
            await asyncio.sleep(0)
        return report + await storing if storing else report

    async def _send_batch(self, run_id: str, batch: list[QueuedTask]) -> EnqueueReport:
        first_of_id = {entry.id: entry for entry in reversed(batch)}
        if not first_of_id:
            return EnqueueReport()
        entries = list(first_of_id.values())
        keys = scraper_keys(entries)
        rows = await self._server.once(sql.ENQUEUE, run_id, *entry_columns(entries), keys)
        added, known = map(int, rows[0])
        report = EnqueueReport(added=added, duplicate=len(entries) - added - known, known=known)
        if keys is None or len(entries) == len(batch):
            return report + EnqueueReport(duplicate=len(batch) - len(entries))
        # Repeated tasks are known or duplicates, as their first occurrence was: the server decides.
        firsts = {id(entry) for entry in entries}
        return report + await self._send_batch(run_id, [entry for entry in batch if id(entry) not in firsts])

    async def forget(self, scraper: str) -> int:
        count = 0
        after: bytes | None = b""
        while after is not None:
            known, after = (await self._server.fetch(sql.QUERIES["forget"], scraper, after, BATCH))[0]
            count += known
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
        floors = self._floors_of(run_id, steps, partitions)
        *rows, end = await self._once(
            sql.CLAIM,
            run_id,
            worker_id,
            limit,
            lease,
            BURST_HORIZON,
            None if steps is None else list(steps),
            None if partitions is None else list(partitions),
            list(floors.known),
            list(floors.known.values()),
            *notes.fence_columns(fence),
        )
        if end["outdated"]:
            return Grant(outdated=True)
        floors.known = dict(zip(end["floor_keys"], end["floors"], strict=True)) if end["floors"] else {}
        return Grant(
            leases=[lease_from(row, run_id, lease) for row in rows],
            next_due=end["next_due"],
            drained=end["drained"],
            claimed_at=end["claimed_at"],
        )

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        fates = [Fate.STALE] * len(outcomes)
        calls = [
            (
                run_id,
                positions,
                outcome_columns([outcomes[p] for p in positions], await self._intake_or_default(run_id)),
            )
            for run_id, positions in in_runs(outcomes)
        ]
        for run_id, positions, columns in calls:
            rows = await self._server.once(sql.SETTLE, run_id, *columns)
            for accepted in rows[0][0]:
                fates[positions[accepted - 1]] = Fate.ACCEPTED
        await add_tracebacks(self._server, outcomes, fates)
        return fates

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        fates = [Fate.STALE] * len(leases)
        ids = [bytes.fromhex(held.task_id) for held in leases]
        tokens = [held.token for held in leases]
        for accepted in await self._server.value(sql.EXTEND, ids, tokens, lease):
            fates[accepted - 1] = Fate.ACCEPTED
        return fates

    async def reclaim(self) -> int:
        count = 0
        while lost := (await self._server.once(sql.RECLAIM, BATCH))[0][0]:
            count += int(lost)
        while await self._server.value(sql.TIDY, BATCH):
            pass
        await clear_purged(self._server)
        return count

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        newest = await self._server.value(sql.QUERIES["newest_token"])
        count, steps_and_reason = 0, (list(once), error_text(reason))
        while ended := (await self._server.once(sql.ABANDON, worker_id, newest, BATCH, *steps_and_reason))[0][
            0
        ]:
            count += int(ended)
        return count

    async def _once(self, query: str, run_id: str, *args: Any) -> list[Any]:
        try:
            return await self._server.once(query, run_id, *args)
        except UnknownRun:
            await self.run(run_id)  # raises the same error with the nearest run id
            raise

    async def _intake(self, run_id: str) -> Intake:
        if run_id not in self._intakes:
            run = await self.run(run_id)
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]

    async def _intake_or_default(self, run_id: str) -> Intake:
        """Return a run's intake, also for a purged run: its outcomes are stale, not errors."""
        try:
            return await self._intake(run_id)
        except UnknownRun:
            return Intake(run_id, RunSettings())

    def _floors_of(
        self, run_id: str, steps: Sequence[str] | None, partitions: Sequence[str] | None
    ) -> "_Floors":
        key = (run_id, *(names if names is None else tuple(names) for names in (steps, partitions)))
        floors = self._floors.get(key)
        if floors is None or floors.created_at + FLOORS_TTL < time.monotonic():
            floors = self._floors[key] = _Floors()
        return floors

    # Reports

    async def stats(self, run_id: str) -> Stats:
        return await read.stats(self._server, await self.run(run_id))

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return read.items(self._server, self.run(run_id), step, after)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return read.rejects(self._server, self.run(run_id), step, after)

    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        if ids is not None:
            return read.dead_letters_by_id(self._server, self.run(run_id), known_ids(ids), where, after)
        return read.dead(self._server, self.run(run_id), where, after)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return read.expired(self._server, self.run(run_id), after)

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
        run = await self.run(run_id)
        ids = None if keys is None else ids_of(run, step, keys, (await self.stats(run_id)).steps)
        async for status in PostgresTaskList(self._server, run_id, step, ids).tasks(states, after):
            yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await read.entered(self._server, self.run(run_id), known_ids(ids))

    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._dead_call(sql.REPLAY, run_id, ids, where)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._dead_call(sql.DROP, run_id, ids, where)

    async def _dead_call(self, query: str, run_id: str, ids: Sequence[str] | None, where: DeadFilter) -> int:
        await self.run(run_id)  # raises with the nearest run id if there is none
        rows = await self._server.once_long(query, run_id, *filter_columns(ids, where))
        return int(rows[0][0])

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        entries = (await self._intake(run_id)).edited(edits) if edits else []
        await self.run(run_id)  # raises with the nearest run id if there is none
        return await edit(self._server, run_id, edits, entries)

    # Hosts and workers

    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        return read.hosts(self._server, None if run_id is None else self.run(run_id), after)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.fetch(sql.PAUSE_HOST, host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.fetch(sql.SLOW_HOST, host, delay)

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        info_text = encode_item(dict(info))
        rows = await self._server.fetch(sql.QUERIES["beat"], worker_id, run_id, state, info_text)
        if not rows:
            await self.run(run_id)  # raises UnknownRun

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        run = None if run_id is None else await self.run(run_id)
        return await read.workers(self._server, run)

    # Notes

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        return await notes.read(self._server, topic, keys)

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        await notes.write(self._server, topic, values, ttl)

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
        return await notes.swap(self._server, topic, key, value, stamp, ttl)

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        return await notes.trim(self._server, topic, max_bytes)


class _Floors:
    """Times before which a claim found nothing; dropped after FLOORS_TTL, because of late commits."""

    def __init__(self) -> None:
        self.created_at = time.monotonic()
        self.known: dict[int, datetime] = {}
