"""Leases that nobody may be working on any more: their holder is silent, or has held them for very long."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.core.model import MINUTE, ZERO, Run, TaskState, TaskStatus, WorkerStatus
from shoal.core.redact import bare_url
from shoal.fleet.whereabouts import is_dead
from shoal.queue.contract import Queue
from shoal.worker.keeper import BEAT_EVERY

MISSED = timedelta(seconds=3 * BEAT_EVERY)  # three heartbeats: one may be late
OLD = 10 * MINUTE
RUNNING, LATE = "running", "late"
ENDINGS = ("ended", "died")
MOST_SHOWN = 100  # tasks of one holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A worker and the leases it holds that are stale."""

    worker_id: str
    run_id: str
    tasks: Sequence[TaskStatus]
    oldest: timedelta
    silent: timedelta | None  # how long ago it was heard, None if never
    is_gone: bool  # it is dead, has ended, or has missed its heartbeats
    why: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal stale --json` promises."""
        return {
            "worker_id": self.worker_id,
            "run_id": self.run_id,
            "leases": len(self.tasks),
            "oldest_seconds": round(self.oldest.total_seconds(), 1),
            "silent_seconds": None if self.silent is None else round(self.silent.total_seconds(), 1),
            "gone": self.is_gone,
            "why": self.why,
            "tasks": [_task_as_json(task) for task in self.tasks[:MOST_SHOWN]],
        }


def state_of(worker: WorkerStatus) -> str:
    """Return a worker's state in one word: what it said last, `late` if it should have said more."""
    if worker.state == RUNNING and worker.last_beat > MISSED:
        return LATE
    return worker.state


async def stale_holders(
    queue: Queue, run_id: str | None = None, *, older: timedelta = OLD, now: datetime | None = None
) -> list[Holder]:
    """Return who holds stale leases in a run, or in any: those who are gone, and those older than `older`.

    Ages are by this machine's clock against the store's.
    """
    runs = [await queue.run(run_id)] if run_id else await _busy(queue)
    found = []
    for run in runs:
        workers = {worker.worker_id: worker for worker in await queue.workers(run.id)}
        leases: dict[str, list[TaskStatus]] = {}
        async for task in queue.tasks(run.id, states={TaskState.LEASED}):
            leases.setdefault(task.worker_id or "", []).append(task)
        moment = now or datetime.now(UTC)
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
) -> Holder | None:
    """Decide whether what a worker holds is stale; None if all is well."""
    reason = _gone(worker_id, worker)
    stale = held if reason else [task for task in held if _age(task, now) >= older]
    if not stale:
        return None
    return Holder(
        worker_id=worker_id,
        run_id=run_id,
        tasks=stale,
        oldest=max(_age(task, now) for task in stale),
        silent=worker.last_beat if worker else None,
        is_gone=reason is not None,
        why=reason or ("held for long" if worker else "held for long by one without heartbeats"),
    )


async def release(queue: Queue, holders: Iterable[Holder]) -> int:
    """Hand back what these hold, and what deadlines have made free; return how many leases.

    Attempts are given back, and what a holder may still say of a task is refused.
    """
    count = await queue.reclaim()
    for worker_id in {holder.worker_id for holder in holders}:
        count += await queue.abandon(worker_id)
    return count


def _gone(worker_id: str, worker: WorkerStatus | None) -> str | None:
    if is_dead(worker_id):
        return "its process is gone"
    if worker is None:
        return None
    if worker.state in ENDINGS:
        return f"it has {worker.state}"
    return "missed its heartbeats" if worker.last_beat > MISSED else None


async def _busy(queue: Queue) -> list[Run]:
    return [run for run in await queue.runs() if (await queue.stats(run.id)).leased]


def _age(task: TaskStatus, now: datetime) -> timedelta:
    return max(now - task.since, ZERO) if task.since else ZERO


def _task_as_json(task: TaskStatus) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "step": task.step,
        "url": bare_url(task.url) if task.url else None,
        "attempt": task.attempt,
        "since": task.since.isoformat(timespec="seconds") if task.since else None,
    }
