"""Overview of a queue: its runs, workers, hosts and errors."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import msgspec

from shoal.core.model import ZERO, Counts, HostStatus, Run, WorkerState, WorkerStatus
from shoal.core.tasks import first
from shoal.fleet.status.at_work import RECENT, is_at_work, state_of
from shoal.fleet.status.progress import ProgressReader, Snapshot, live_counts, snapshot_of
from shoal.fleet.status.rows.runs import RunInOverview
from shoal.fleet.status.rows.workers import HostRow, OverviewRow, WorkerRow
from shoal.queue.contract import Queue, StoreSize
from shoal.queue.encoding import COUNTER_NAMES
from shoal.worker.process.heartbeat import last_hour_of, whole_number

MAX_RUNS = 20  # that are read, the newest first
MAX_HOSTS = 200
ERRORS_SHOWN = timedelta(minutes=5)  # how long the errors of a worker count after its last heartbeat
SIZE_INTERVAL_SECONDS = 30.0  # between two reads of the store's size
_WORKING = (WorkerState.LATE, WorkerState.FROZEN, WorkerState.RUNNING)  # the most urgent first


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment; every list is sorted by importance."""

    runs: Sequence[Snapshot] = ()
    workers: Sequence[WorkerStatus] = ()
    hosts: Sequence[HostStatus] = ()
    errors: Mapping[str, int] = msgspec.field(default_factory=dict)  # failed attempts by class
    store: StoreSize | None = None  # None before the first read

    @property
    def tasks(self) -> Counts:
        """The counts of the runs together; tasks that wait in a run which has ended are in none."""
        counts = [live_counts(one.run, one.stats) for one in self.runs]
        return Counts(**{name: sum(getattr(one, name) for one in counts) for name in COUNTER_NAMES})

    def row(self) -> OverviewRow:
        """Return the queue as `shoal top --json` reports it."""
        return OverviewRow.of(
            self,
            # All of a run's row would be too much for each of a list.
            runs=[RunInOverview.of(snapshot.row()) for snapshot in self.runs],
            workers=[worker_row(worker) for worker in self.workers],
            hosts=[host_row(host) for host in self.hosts],
        )


class OverviewReader:
    """Reads a queue repeatedly, so that rates are known."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._progress: dict[str, ProgressReader] = {}
        self._size: StoreSize | None = None
        self._size_at = 0.0

    async def read(self) -> Overview:
        """Return the current overview."""
        known = await self._queue.workers()
        busy = {worker.run_id for worker in known if is_at_work(worker)}
        runs = [await self._read_run(run, run.id in busy) for run in (await self._queue.runs())[:MAX_RUNS]]
        workers = [worker for worker in known if _is_shown(worker)]
        # By id: a worker of several runs reports the same errors for each.
        recent = {worker.worker_id: worker for worker in known if worker.last_beat <= ERRORS_SHOWN}
        return Overview(
            runs=sorted(runs, key=lambda snapshot: snapshot.is_over),
            workers=sorted(workers, key=_worker_order),
            hosts=await self._read_hosts(),
            errors=errors_of(recent.values()),
            store=await self._read_size(),
        )

    async def _read_size(self) -> StoreSize:
        if self._size is None or time.monotonic() > self._size_at + SIZE_INTERVAL_SECONDS:
            self._size, self._size_at = await self._queue.size(), time.monotonic()
        return self._size

    async def _read_run(self, run: Run, at_work: bool) -> Snapshot:
        stats = await self._queue.stats(run.id)
        if not stats.remaining:
            self._progress.pop(run.id, None)
            return await snapshot_of(self._queue, run, stats)
        progress = self._progress.setdefault(run.id, ProgressReader(self._queue, run.id, with_hosts=False))
        return await progress.read(at_work=at_work)

    async def _read_hosts(self) -> list[HostStatus]:
        found = [host async for host in first(self._queue.hosts(), MAX_HOSTS)]
        return sorted(found, key=_busy, reverse=True)


def worker_row(worker: WorkerStatus) -> WorkerRow:
    """Return a worker under the field names of every report."""
    info = worker.info
    given = info.get("own")
    own = given if isinstance(given, dict) else {}
    # On-demand leases are counted for the callers; a listening worker reports them itself.
    names = ("leased", "completed", "failed", "items")
    return WorkerRow.of(
        worker,
        state=str(state_of(worker)),
        steps=info.get("steps"),
        partitions=info.get("partitions") or info.get("sharing"),
        last_hour=last_hour_of(worker),
        memory_bytes=info.get("memory"),
        last_beat_seconds=round(worker.last_beat.total_seconds(), 1),
        **{name: getattr(worker, name) + whole_number(own.get(name)) for name in names},
    )


def host_row(host: HostStatus) -> HostRow:
    """Return a host under the field names of every report."""
    return HostRow.of(
        host,
        host.counts,
        delay_seconds=host.delay.total_seconds() if host.delay else None,
        paused_seconds=round(host.paused_for.total_seconds(), 1) if host.paused_for else None,
    )


def _is_shown(worker: WorkerStatus) -> bool:
    return not worker.is_coordinator and (worker.last_beat <= RECENT or bool(worker.leased))


def _worker_order(worker: WorkerStatus) -> tuple[int, str]:
    state = state_of(worker)
    return _WORKING.index(state) if state in _WORKING else len(_WORKING), worker.worker_id


def _busy(host: HostStatus) -> tuple[timedelta, int, int]:
    return host.paused_for or ZERO, host.counts.leased, host.counts.pending


def errors_of(workers: Iterable[WorkerStatus]) -> dict[str, int]:
    """Return the error counts of workers by class, most frequent first."""
    total: Counter[str] = Counter()
    for worker in workers:
        total.update(worker.info.get("errors") or {})
    return dict(total.most_common())


def why_workers_wait(workers: Iterable[WorkerStatus]) -> str:
    """Return why a worker has postponed its last task, such as a login that fails; "" if none has."""
    return next((str(why) for worker in workers if (why := worker.info.get("waits_for"))), "")
