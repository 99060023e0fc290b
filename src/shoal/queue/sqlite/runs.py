"""Runs: started, looked up, changed, counted and purged; and the workers in them."""

from collections.abc import Sequence

import msgspec

from shoal.core.errors import UnknownRun
from shoal.core.model import Run, RunSettings, RunState, Stats, WorkerStatus
from shoal.queue.encoding import (
    duration,
    micros,
    moment,
    optional_duration,
    optional_micros,
    stats_from,
)
from shoal.queue.intake import decode
from shoal.queue.requests import STEERED_FROM
from shoal.queue.sqlite.store import Store, as_json

PURGE_BATCH = 500  # rows of each table
_PURGED_IN_BATCHES = (
    *("purge_item", "purge_reject", "purge_dead"),
    *("purge_expired", "purge_dropped", "purge_expiry"),
)
_PURGED_LAST = ("purge_host_queues", "purge_step_groups", "purge_workers", "purge_unmark")


class RunRecord(msgspec.Struct, array_like=True, frozen=True):
    """A run as stored."""

    no: int
    id: str
    scraper: str
    state: RunState
    host_delay: int
    per_host: int
    max_attempts: int
    ttl: int | None
    started_at: int
    reason: str
    dedup: int | None
    dedup_steps: tuple[str, ...]

    def run(self) -> Run:
        settings = RunSettings(
            host_delay=duration(self.host_delay),
            per_host=self.per_host,
            max_attempts=self.max_attempts,
            ttl=optional_duration(self.ttl),
            dedup=optional_duration(self.dedup),
            dedup_steps=self.dedup_steps,
        )
        return Run(
            id=self.id,
            scraper=self.scraper,
            settings=settings,
            state=self.state,
            started_at=moment(self.started_at),
            reason=self.reason,
        )


def start(store: Store, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
    """Start a run, or return the one with this id; and whether it is new."""
    added = store.run(
        "run_add",
        run_id=run_id,
        scraper=scraper,
        host_delay=micros(settings.host_delay),
        per_host=settings.per_host,
        max_attempts=settings.max_attempts,
        ttl=optional_micros(settings.ttl),
        dedup=optional_micros(settings.dedup),
        dedup_steps=as_json(settings.dedup_steps),
        now=store.now(),
    )
    return get(store, run_id), added > 0


def get_row(store: Store, run_id: str) -> RunRecord:
    """Return a run's row; raises UnknownRun."""
    row = store.find("run_get", RunRecord, run_id=run_id)
    if row is None:
        raise unknown_run(store, run_id)
    return row


def get(store: Store, run_id: str) -> Run:
    """Return a run; raises UnknownRun."""
    return get_row(store, run_id).run()


def unknown_run(store: Store, run_id: str) -> UnknownRun:
    """Return the error for a run that does not exist."""
    return UnknownRun(run_id, store.read("run_names", list[str]))


def list_all(store: Store) -> list[Run]:
    """Return all runs, the newest first."""
    return [row.run() for row in store.read("run_list", list[RunRecord])]


def steer(store: Store, run_id: str, state: RunState, reason: str = "") -> Run:
    """Set the state of a run if its current state allows it, and return the run."""
    row = get_row(store, run_id)
    if row.state in STEERED_FROM[state]:
        store.run("run_steer", run=row.no, state=state.value, reason=reason)
        row = msgspec.structs.replace(row, state=state, reason=reason)
    return row.run()


def change(store: Store, run: Run, settings: RunSettings) -> Run:
    """Change the rate limits and the attempts of a run; raises UnknownRun."""
    row = get_row(store, run.id)
    delay = micros(settings.host_delay)
    store.run(
        "run_change",
        run=row.no,
        host_delay=delay,
        per_host=settings.per_host,
        max_attempts=settings.max_attempts,
    )
    is_shorter = store.run("host_shorten", run=row.no, old=row.host_delay, new=delay)
    # Where a gap became shorter, the host queues of other runs on that host are due earlier, too.
    hosts = store.value("run_hosts", run=row.no) if is_shorter else "[]"
    store.run("arm", host_queues=store.value("run_host_queues", run=row.no), hosts=hosts)
    return get(store, run.id)


def purge(store: Store, run_id: str) -> None:
    """Make a run unknown and free its hosts at once; raises UnknownRun.

    `clear_purged` deletes its rows in batches, so that no other call waits long.
    """
    run = get_row(store, run_id).no
    hosts = store.value("purge_hosts", run=run)
    for statement in ("purge_leases", "purge_run", "purge_mark"):
        store.run(statement, run=run)
    store.run("arm", host_queues="[]", hosts=hosts)


def clear_purged(store: Store) -> bool:
    """Delete a batch of rows of purged runs; False when none are left."""
    run = store.value("purge_next")
    if run is None:
        return False
    deleted = sum(store.run(name, run=run, limit=PURGE_BATCH) for name in _PURGED_IN_BATCHES)
    if not deleted and not _clear_tasks(store, run):
        for name in _PURGED_LAST:
            store.run(name, run=run)
    return True


def _clear_tasks(store: Store, run: int) -> int:
    tasks = store.read("purge_some", list[tuple[int, int]], run=run, limit=PURGE_BATCH)
    places = as_json([place for _, place in tasks])
    store.run("ready_remove", tasks=as_json(tasks))
    for name in ("delayed_remove", "purge_failures", "purge_yielded", "purge_tasks"):
        store.run(name, places=places)
    return len(tasks)


def stats(store: Store, run_id: str) -> Stats:
    """Return the counts of a run: in total, by step and by partition."""
    rows = store.read("stats", list[tuple[str, str, list[int]]], run=get_row(store, run_id).no)
    return stats_from(
        (step, partition, counter, count)
        for step, partition, counts in rows
        for counter, count in enumerate(counts)
    )


# Workers


class WorkerRecord(msgspec.Struct, array_like=True, frozen=True):
    """A worker in a run."""

    worker_id: str
    run_id: str
    state: str
    info: str
    beat_at: int
    leased: int
    completed: int
    failed: int
    items: int

    def status(self, now: int) -> WorkerStatus:
        return WorkerStatus(
            worker_id=self.worker_id,
            run_id=self.run_id,
            state=self.state,
            info=decode(self.info),
            last_beat=duration(now - self.beat_at),
            leased=self.leased,
            completed=self.completed,
            failed=self.failed,
            items=self.items,
        )


def beat(store: Store, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
    """Record heartbeats of workers, their ids, states and what they do; raises UnknownRun."""
    run, now = get_row(store, run_id).no, store.now()
    for worker_id, state, info in beats:
        store.run("worker_beat", run=run, worker_id=worker_id, state=state, info=info, now=now)


def workers(store: Store, run_id: str | None = None) -> Sequence[WorkerStatus]:
    """Return the workers that have sent a heartbeat."""
    run = None if run_id is None else get_row(store, run_id).no
    now = store.now()
    return [row.status(now) for row in store.read("worker_read", list[WorkerRecord], run=run)]
