"""Work on a SQLite file: tasks in, leases out, outcomes back."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from shoal.core.failures import error_text
from shoal.core.model import NOTHING, ZERO, Done, EnqueueReport, Fate, Grant, Lease, Outcome
from shoal.queue.contract import DEFAULT_LEASE, Fence, OnInvalid, Tasks, WorkerBeat, WorkQueue
from shoal.queue.intake import Intake, encode_item
from shoal.queue.rules import check_claim
from shoal.queue.sqlite import admin
from shoal.queue.sqlite.verbs.base import SqliteQueueBase
from shoal.queue.sqlite.work import settle, sweep
from shoal.queue.sqlite.work.claim import SqliteClaimRequest, claim
from shoal.queue.sqlite.work.enqueue import BATCH, EnqueuePipeline, yield_gil


class SqliteWork(SqliteQueueBase, WorkQueue):
    """Enqueues, claims and settles tasks."""

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
        request = SqliteClaimRequest(worker_id, run_id, limit, lease, steps, partitions, fence, lead)
        return await self._writer.call(claim, request)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        run_ids = {one.lease.run_id for one in outcomes if isinstance(one, Done) and one.follow}
        intakes = {run_id: await self._intake(run_id) for run_id in run_ids}
        return await self._writer.call(settle.settle, settle.prepare(outcomes, intakes))

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        return await self._writer.call(settle.extend, leases, lease)

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        check_claim(1, lease)
        return await self._writer.call(settle.extend_worker, worker_id, lease)

    async def reclaim(self) -> int:
        count, more = 0, True
        while more:
            lost, more = await self._writer.call(sweep.reclaim)
            count += lost
        return count

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        return await self._writer.call(admin.abandon, worker_id, list(once), error_text(reason))

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        await self.beat_together(run_id, [WorkerBeat(worker_id, state, info)])

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        rows = [(beat.worker_id, beat.state, encode_item(dict(beat.info))) for beat in beats]
        await self._writer.call(admin.beat, run_id, rows)
