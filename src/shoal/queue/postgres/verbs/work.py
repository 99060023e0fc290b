"""Work on a PostgreSQL database: tasks in, leases out, outcomes back."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from shoal.core.failures import error_text
from shoal.core.model import NOTHING, ZERO, EnqueueReport, Fate, Grant, Lease, Outcome
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.contract import DEFAULT_LEASE, Fence, OnInvalid, Tasks, WorkerBeat, WorkQueue
from shoal.queue.intake import QueuedTask, encode_item
from shoal.queue.postgres import notes, sql
from shoal.queue.postgres.purge import clear_purged
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.tracebacks import add_tracebacks
from shoal.queue.postgres.verbs.base import PostgresQueueBase
from shoal.queue.postgres.wire import (
    bytes_array,
    entry_columns,
    int_array,
    leases_from,
    outcome_columns,
    scraper_keys,
)
from shoal.queue.rules import check_claim, in_runs

BATCH = 1_000  # rows of one call of a sweep
FLOORS_TTL_SECONDS = 10.0

log = logging.getLogger(__name__)


class PostgresWork(PostgresQueueBase, WorkQueue):
    """Enqueues, claims and settles tasks."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self._floors: dict[tuple[Any, ...], _Floors] = {}

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
        lead: timedelta = ZERO,
    ) -> Grant:
        check_claim(limit, lease, fence, lead)
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
            lead,
        )
        if end["outdated"]:
            return Grant(outdated=True)
        floors.known = dict(zip(end["floor_keys"], end["floors"], strict=True)) if end["floors"] else {}
        return Grant(
            leases=leases_from(rows, run_id, lease, lead),
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
            accepted = rows[0][0]
            for position in positions if accepted is None else (positions[int(n) - 1] for n in accepted):
                fates[position] = Fate.ACCEPTED
        await add_tracebacks(self._server, outcomes, fates)
        return fates

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        fates = [Fate.STALE] * len(leases)
        ids = bytes_array([held.task_id for held in leases])
        tokens = int_array([held.token for held in leases])
        for accepted in await self._server.value(sql.EXTEND, ids, tokens, lease):
            fates[int(accepted) - 1] = Fate.ACCEPTED
        return fates

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        check_claim(1, lease)
        return int(await self._server.value(sql.QUERIES["extend_worker"], worker_id, lease))

    async def reclaim(self) -> int:
        count = 0
        if set_back := await self._server.value(sql.FOLLOW_CLOCK):
            log.warning(
                "The clock of the PostgreSQL server was set back by %s. Stored times follow it.", set_back
            )
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

    def _floors_of(
        self, run_id: str, steps: Sequence[str] | None, partitions: Sequence[str] | None
    ) -> "_Floors":
        key = (run_id, *(names if names is None else tuple(names) for names in (steps, partitions)))
        floors = self._floors.get(key)
        if floors is None or floors.created_at + FLOORS_TTL_SECONDS < time.monotonic():
            floors = self._floors[key] = _Floors()
        return floors

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        await self.beat_together(run_id, [WorkerBeat(worker_id, state, info)])

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        newest = {beat.worker_id: beat for beat in beats}  # a statement writes a row once
        if not newest:
            return
        ids, states, infos = zip(
            *((beat.worker_id, beat.state, encode_item(dict(beat.info))) for beat in newest.values()),
            strict=True,
        )
        rows = await self._server.fetch(sql.QUERIES["beat"], ids, run_id, states, infos)
        if not rows:
            await self.run(run_id)  # raises UnknownRun


class _Floors:
    """Times before which a claim found nothing; dropped after FLOORS_TTL_SECONDS, because of late commits."""

    def __init__(self) -> None:
        self.created_at = time.monotonic()
        self.known: dict[str, str] = {}  # as the server writes them: nobody else reads them
