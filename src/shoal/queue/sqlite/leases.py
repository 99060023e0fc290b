"""Leases that are renewed (`extend`), abandoned or lost; delays and times to live."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shoal.core.model import Fate, Lease
from shoal.queue.encoding import micros
from shoal.queue.sqlite import notes, runs
from shoal.queue.sqlite.counters import DELAYED, EXPIRED, PENDING, CounterChanges
from shoal.queue.sqlite.enqueue import expire_known
from shoal.queue.sqlite.settle import LiveLease, SettleBatch, is_same, live_leases
from shoal.queue.sqlite.store import Store, as_json

LEASE_LOST = "lease lost"
BATCH = 1_000
# Of each kind in one transaction: about a tenth of a second, in which no other process can write.
MAX_PER_SWEEP = 2 * BATCH


Move = Callable[[Store, CounterChanges, int, int], int]


class SweepResult(NamedTuple):
    """Whether one transaction was enough for all due changes."""

    all_expired: bool
    all_promoted: bool


class OutlivedTask(msgspec.Struct, array_like=True, frozen=True):
    """A task whose time to live has passed."""

    host_queue: int
    step_group: int
    place: int
    pending: int
    delayed: int


class DueTask(msgspec.Struct, array_like=True, frozen=True):
    """A task whose delay is over."""

    host_queue: int
    step_group: int
    place: int
    attempt: int


def extend(store: Store, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
    """Extend the deadlines of live leases."""
    held = live_leases(store, leases)
    fates = [Fate.ACCEPTED if is_same(held.get(one.token), one) else Fate.STALE for one in leases]
    live = [one.token for one, fate in zip(leases, fates, strict=True) if fate is Fate.ACCEPTED]
    store.run("lease_extend", tokens=as_json(live), deadline=store.now() + micros(lease))
    return fates


def extend_worker(store: Store, worker_id: str, lease: timedelta) -> int:
    """Extend the deadlines of a worker's leases that have not passed, and return their number."""
    now = store.now()
    return store.run("lease_extend_worker", worker_id=worker_id, now=now, deadline=now + micros(lease))


def abandon(store: Store, worker_id: str, once: Sequence[str], reason: str) -> int:
    """End every lease of a worker, and return their number.

    Tasks of the steps `once` die; the others become pending again.
    """
    abandoned = store.read("lease_of_worker", list[LiveLease], worker_id=worker_id)
    if abandoned:
        run_numbers = as_json(sorted({held.run for held in abandoned}))
        buried = set(store.read("step_groups_of", list[int], runs=run_numbers, steps=as_json(once)))
        batch = SettleBatch(store)
        for held in abandoned:
            if held.step_group in buried:
                batch.fail(held, reason, bury=True)
            else:
                batch.release(held)
        batch.write()
    return len(abandoned)


def reclaim(store: Store) -> tuple[int, bool]:
    """Sweep every run; return the number of expired leases, and whether there is more to do."""
    now = store.now()
    count = end_lost_leases(store, now)
    more = count == MAX_PER_SWEEP
    for run in store.read("sweep_runs", list[int], now=now):
        if more:
            break
        more = not all(sweep_run(store, now, run=run))
    runs.clear_purged(store)  # rows left by an interrupted purge
    notes.remove_expired(store)
    return count, expire_known(store, now) or more


def end_lost_leases(store: Store, now: int) -> int:
    """End expired leases (visibility_timeout): the core of a reclaim.

    Return how many: MAX_PER_SWEEP if there may be more.
    """
    count = 0
    while count < MAX_PER_SWEEP and (lost := store.read("lease_lost", list[LiveLease], now=now, limit=BATCH)):
        batch = SettleBatch(store)
        for held in lost:
            batch.fail(held, LEASE_LOST, bury=False)
        batch.write()
        count += len(lost)
    return count


def sweep_run(store: Store, now: int, *, run: int) -> SweepResult:
    """Expire tasks of a run whose time to live has passed, and make tasks pending whose delay is over."""
    counters = CounterChanges()
    all_expired = _move_all(_expire, store, counters, run, now)
    all_promoted = all_expired and _move_all(_promote, store, counters, run, now)
    counters.write(store)
    return SweepResult(all_expired, all_promoted)


def _move_all(move: Move, store: Store, counters: CounterChanges, run: int, now: int) -> bool:
    """Move tasks in batches; False if some may be left."""
    return any(move(store, counters, run, now) < BATCH for _ in range(MAX_PER_SWEEP // BATCH))


def _expire(store: Store, counters: CounterChanges, run: int, now: int) -> int:
    outlived = store.read("sweep_outlived", list[OutlivedTask], run=run, now=now, limit=BATCH)
    if not outlived:
        return 0
    store.run("sweep_checked", run=run, now=now, limit=BATCH)
    waiting = [task for task in outlived if task.pending or task.delayed]
    for task in waiting:
        counters.move(task.host_queue, task.step_group, PENDING if task.pending else DELAYED, EXPIRED)
    places = as_json([task.place for task in waiting])
    store.run("ready_remove", tasks=as_json([(task.host_queue, task.place) for task in waiting]))
    store.run("delayed_remove", places=places)
    store.run("sweep_expire", run=run, now=now, places=places)
    return len(outlived)


def _promote(store: Store, counters: CounterChanges, run: int, now: int) -> int:
    due = store.read("sweep_due", list[DueTask], run=run, now=now, limit=BATCH)
    if not due:
        return 0
    for task in due:
        counters.move(task.host_queue, task.step_group, DELAYED, PENDING)
    store.run("delayed_remove", places=as_json([task.place for task in due]))
    store.run_many("ready_add", [(task.host_queue, task.place, task.attempt) for task in due])
    return len(due)
