"""Stale leases: their holder sends no heartbeats, or has held them for very long."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from shoal.core.model import MINUTE, ZERO, Run, TaskState, TaskStatus, WorkerState, WorkerStatus
from shoal.core.redact import bare_url
from shoal.fleet.dead_workers import MAX_SILENCE, is_at_most_once, is_dead
from shoal.fleet.status.at_work import ENDINGS
from shoal.fleet.status.rows.workers import StaleRow, StaleTaskRow
from shoal.queue.contract import Queue, QueueReports
from shoal.worker.process.dead_worker import release_leases

OLD = 10 * MINUTE
MAX_SHOWN = 100  # tasks per holder


class StaleHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and the leases it holds that are stale."""

    worker_id: str
    run_id: str
    tasks: Sequence[TaskStatus]
    oldest: timedelta
    silent: timedelta | None  # time since its last heartbeat, None if there was none
    is_gone: bool  # it is dead, has ended, or has missed heartbeats
    why: str
    at_most_once: bool = False  # its tasks are not handed out again

    def row(self) -> StaleRow:
        """Return the holder as `shoal stale --json` reports it."""
        return StaleRow.of(
            self,
            leases=len(self.tasks),
            oldest_seconds=round(self.oldest.total_seconds(), 1),
            silent_seconds=None if self.silent is None else round(self.silent.total_seconds(), 1),
            gone=self.is_gone,
            tasks=[
                StaleTaskRow.of(task, task_id=task.id, url=bare_url(task.url) if task.url else None)
                for task in self.tasks[:MAX_SHOWN]
            ],
        )


async def stale_holders(
    queue: Queue, run_id: str | None = None, *, older: timedelta = OLD
) -> list[StaleHolder]:
    """Return the holders of stale leases in a run, or in any: gone workers, and leases older than `older`.

    Ages compare this machine's clock with the store's.
    """
    runs = [await queue.run(run_id)] if run_id else await _busy(queue)
    found = []
    for run in runs:
        workers = {worker.worker_id: worker for worker in await queue.workers(run.id)}
        leases: dict[str, list[TaskStatus]] = {}
        async for task in queue.tasks(run.id, states={TaskState.LEASED}):
            leases.setdefault(task.worker_id or "", []).append(task)
        moment = datetime.now(UTC)
        judged = (
            judge(run.id, worker_id, workers.get(worker_id), held, older=older, now=moment)
            for worker_id, held in leases.items()
        )
        found += [holder for holder in judged if holder]
    return sorted(found, key=lambda holder: holder.oldest, reverse=True)


def judge(
    run_id: str,
    worker_id: str,
    worker: WorkerStatus | None,
    held: Sequence[TaskStatus],
    *,
    older: timedelta,
    now: datetime,
) -> StaleHolder | None:
    """Decide whether a worker's leases are stale; None if not."""
    reason = _why_gone(worker)
    stale = held if reason else [task for task in held if _age(task, now) >= older]
    if not stale:
        return None
    return StaleHolder(
        worker_id=worker_id,
        run_id=run_id,
        tasks=stale,
        oldest=max(_age(task, now) for task in stale),
        silent=worker.last_beat if worker else None,
        is_gone=reason is not None,
        why=reason or _why_old(worker),
        at_most_once=worker is not None and is_at_most_once(worker),
    )


async def release(queue: Queue, holders: Iterable[StaleHolder]) -> int:
    """Release the leases of these holders, and the expired ones; return how many.

    Attempts are given back, and later outcomes from the holder are refused. An at-most-once holder keeps its
    leases until their deadlines.
    """
    count = await queue.reclaim()
    for worker_id, at_most_once in {(holder.worker_id, holder.at_most_once) for holder in holders}:
        if not at_most_once:  # it may still be running
            count += await release_leases(queue, worker_id)
    return count


def _why_gone(worker: WorkerStatus | None) -> str | None:
    if worker is None:
        return None
    if is_dead(worker):
        return "its process is gone"
    if worker.state in ENDINGS:
        return f"it has {worker.state}"
    return "missed its heartbeats" if worker.last_beat > MAX_SILENCE else None


def _why_old(worker: WorkerStatus | None) -> str:
    if worker is None:
        return "held for long by a worker without heartbeats"
    return "its process is frozen" if worker.state == WorkerState.FROZEN else "held for long"


async def _busy(queue: QueueReports) -> list[Run]:
    return [run for run in await queue.runs() if (await queue.stats(run.id)).leased]


def _age(task: TaskStatus, now: datetime) -> timedelta:
    return max(now - task.since, ZERO) if task.since else ZERO
