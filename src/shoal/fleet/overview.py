"""Everything in a queue at one glance: its runs, workers and hosts, and what goes wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shoal.core.model import MINUTE, ZERO, HostStatus, Run, WorkerStatus
from shoal.fleet.progress import Progress, Snapshot, counts_as_json
from shoal.fleet.single import STATE as LAUNCHER
from shoal.fleet.staleness import LATE, state_of
from shoal.queue.contract import Queue
from shoal.worker.condition import last_hour_of, whole_number
from shoal.worker.keeper import FROZEN, RUNNING

MOST_RUNS = 20  # that are looked at, the newest first
MOST_HOSTS = 200
RECENT = MINUTE  # for how long a worker that has ended is shown
_WORKING = (LATE, FROZEN, RUNNING)  # what needs a look first


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A queue at one moment; in every list comes first what matters most."""

    runs: Sequence[Snapshot] = ()
    workers: Sequence[WorkerStatus] = ()
    hosts: Sequence[HostStatus] = ()
    errors: Mapping[str, int] = field(default_factory=dict)  # by class, of the workers that are at work

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal top --json` promises."""
        return {
            "runs": [_run_row(snapshot) for snapshot in self.runs],
            "workers": [worker_row(worker) for worker in self.workers],
            "hosts": [host_row(host) for host in self.hosts],
            "errors": dict(self.errors),
        }


class Glances:
    """Looks at a queue again and again, so that rates are known."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._progress: dict[str, Progress] = {}

    async def look(self) -> Overview:
        """Return how everything is now."""
        runs = [await self._run(run) for run in (await self._queue.runs())[:MOST_RUNS]]
        workers = [worker for worker in await self._queue.workers() if _is_shown(worker)]
        at_work = {worker.worker_id: worker for worker in workers if state_of(worker) in _WORKING}
        return Overview(
            runs=sorted(runs, key=_is_over),
            workers=sorted(workers, key=_worker_order),
            hosts=await self._hosts(),
            errors=_errors(at_work.values()),
        )

    async def _run(self, run: Run) -> Snapshot:
        stats = await self._queue.stats(run.id)
        if not stats.remaining:
            self._progress.pop(run.id, None)
            return Snapshot(run, stats, 0, 0.0, None)
        return await self._progress.setdefault(run.id, Progress(self._queue, run.id)).look()

    async def _hosts(self) -> list[HostStatus]:
        found: list[HostStatus] = []
        async for host in self._queue.hosts():
            found.append(host)
            if len(found) >= MOST_HOSTS:
                break
        return sorted(found, key=_busy, reverse=True)


def worker_row(worker: WorkerStatus) -> dict[str, Any]:
    """Return a worker under the names that every report uses."""
    info = worker.info
    told = info.get("own")
    own = told if isinstance(told, dict) else {}
    return {
        "worker_id": worker.worker_id,
        "run_id": worker.run_id,
        "state": state_of(worker),
        "steps": info.get("steps"),
        "partitions": info.get("partitions") or info.get("sharing"),
        # Leases that callers lend are counted for the callers; of those a listening worker tells itself.
        "leased": worker.leased + whole_number(own.get("leased")),
        "completed": worker.completed + whole_number(own.get("completed")),
        "failed": worker.failed + whole_number(own.get("failed")),
        "items": worker.items + whole_number(own.get("items")),
        "last_hour": last_hour_of(worker),
        "memory_bytes": info.get("memory"),
        "last_beat_seconds": round(worker.last_beat.total_seconds(), 1),
        "info": dict(info),
    }


def host_row(host: HostStatus) -> dict[str, Any]:
    """Return a host under the names that every report uses."""
    return {
        "host": host.host,
        **counts_as_json(host.counts),
        "delay_seconds": host.delay.total_seconds() if host.delay else None,
        "paused_seconds": round(host.paused_for.total_seconds(), 1) if host.paused_for else None,
    }


def _run_row(snapshot: Snapshot) -> dict[str, Any]:
    row = snapshot.as_json()
    del row["steps"], row["partitions"], row["not_followed"]
    return row


def _is_over(snapshot: Snapshot) -> bool:
    return snapshot.is_over


def _is_shown(worker: WorkerStatus) -> bool:
    is_worker = worker.state != LAUNCHER and "role" not in worker.info
    return is_worker and (worker.last_beat <= RECENT or bool(worker.leased))


def _worker_order(worker: WorkerStatus) -> tuple[int, str]:
    state = state_of(worker)
    return _WORKING.index(state) if state in _WORKING else len(_WORKING), worker.worker_id


def _busy(host: HostStatus) -> tuple[timedelta, int, int]:
    return host.paused_for or ZERO, host.counts.leased, host.counts.pending


def _errors(workers: Iterable[WorkerStatus]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for worker in workers:
        total.update(worker.info.get("errors") or {})
    return dict(total.most_common())
