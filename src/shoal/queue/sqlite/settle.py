"""Settle outcomes: the results of ended leases are collected one by one and written together."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import assert_never

import msgspec

from shoal.core.failures import error_of, failure_text
from shoal.core.model import ZERO, Bury, Done, Fate, Lease, Release, Retry
from shoal.queue.encoding import micros
from shoal.queue.intake import PreparedOutcome, QueuedTask
from shoal.queue.sqlite import hosts
from shoal.queue.sqlite.counters import (
    COMPLETED,
    DEAD,
    DELAYED,
    ITEMS,
    LEASED,
    PENDING,
    REJECTED,
    CounterChanges,
    CounterColumn,
)
from shoal.queue.sqlite.enqueue import add_tasks
from shoal.queue.sqlite.store import NO_HOST, Store, as_json


class LiveLease(msgspec.Struct, array_like=True):
    """A live lease with what is needed to end it."""

    token: int
    task_id: str
    run_id: str
    run: int
    host_queue: int
    step_group: int
    place: int
    host: int
    attempt: int
    worker: int
    max_attempts: int
    ttl: int | None
    start: int


class SettleBatch:
    """Ended leases and everything to write for them."""

    def __init__(self, store: Store) -> None:
        self._store, self._now, self._counters = store, store.now(), CounterChanges()
        self._ended: list[int] = []
        self._ready: list[tuple[int, int, int]] = []
        self._delayed: list[tuple[int, int, int, int, int]] = []
        self._dead: list[tuple[int, int, int, int, str]] = []
        self._failures: list[tuple[int, int, int, int, int, str]] = []
        self._items: list[tuple[int, int, int, int, str]] = []
        self._rejects: list[tuple[int, int, int, int, str, str]] = []
        self._yielded: list[tuple[int, int, int]] = []
        self._follow: dict[tuple[int, int | None], list[QueuedTask]] = {}
        self._adjustments: dict[int, list[int | None]] = {}
        self._unused: dict[int, list[int]] = {}  # starts, by host

    def complete(
        self,
        held: LiveLease,
        items: Sequence[str],
        rejects: Sequence[tuple[str, str]],
        follow: Sequence[QueuedTask],
    ) -> None:
        """Record that a task is done."""
        where = held.run, held.step_group, held.place, self._now
        self._items += [(*where, data) for data in items]
        self._rejects += [(*where, data, reason) for data, reason in rejects]
        if items:
            self._yielded.append((held.place, len(items), self._now))
        if follow:
            self._follow.setdefault((held.run, held.ttl), []).extend(follow)
        self._end(held, COMPLETED)
        self._counters.add(held.host_queue, ITEMS, len(items))
        self._counters.add(held.host_queue, REJECTED, len(rejects))
        self._counters.credit(held.worker, completed=1, items=len(items))

    def fail(self, held: LiveLease, failure: str, *, bury: bool, after: timedelta = ZERO) -> None:
        """Record a failed attempt: the task becomes pending or delayed again, for a retry, or dies."""
        self._failures.append((held.place, held.token, held.attempt, held.worker, self._now, failure))
        self._counters.credit(held.worker, failed=1)
        if bury or held.attempt >= held.max_attempts:
            self._dead.append((held.run, held.place, held.attempt, self._now, error_of(failure)))
            self._end(held, DEAD)
        else:
            self._requeue(held, held.attempt, after)

    def release(self, held: LiveLease, after: timedelta = ZERO) -> None:
        """Return a task that was not attempted: it gets its attempt back."""
        self._requeue(held, held.attempt - 1, after)

    def adjust_host(self, held: LiveLease, pause: timedelta | None, slow: timedelta | None) -> None:
        """Pause or slow the host of a lease."""
        if held.host == NO_HOST or (pause is None and slow is None):
            return
        adjustment = self._adjustments.setdefault(held.host, [None, None])
        if pause is not None:
            adjustment[0] = max(adjustment[0] or 0, self._now + micros(pause))
        if slow is not None:
            adjustment[1] = micros(slow)

    def give_back_start(self, held: LiveLease) -> None:
        """Free the start of a lease whose host got no request: another lease may use it."""
        if held.host != NO_HOST:
            self._unused.setdefault(held.host, []).append(held.start)

    def write(self) -> None:
        """Write everything, in the caller's transaction: all of it is stored, or nothing.

        The counters come last, because when host queues are due depends on what the others wrote.
        """
        store = self._store
        store.run("lease_end", tokens=as_json(self._ended))
        self._write_requeued()
        store.run_many("failure_add", self._failures)
        store.run_many("dead_add", self._dead)
        store.run_many("item_add", self._items)
        store.run_many("reject_add", self._rejects)
        store.run_many("yielded_add", self._yielded)
        store.run_many("host_adjust", [(host, *adjustment) for host, adjustment in self._adjustments.items()])
        self._write_starts()
        for (run, ttl), entries in self._follow.items():
            self._counters.touch_host_queues(add_tasks(store, run, ttl, entries, self._now).host_queues)
        self._counters.write(store)

    def _write_starts(self) -> None:
        if self._unused:
            # The only known start of a host stays, because the one before it is unknown.
            remaining = [
                (host.id, hosts.remove_starts(known, self._unused[host.id]))
                for host in hosts.read_starts(self._store, self._unused)
                if len(known := host.starts()) > 1
            ]
            hosts.write_starts(self._store, remaining)

    def _write_requeued(self) -> None:
        self._store.run_many("ready_add", self._ready)
        self._store.run_many("delayed_add", self._delayed)
        places = [place for _, place, _ in self._ready] + [place for _, _, place, _, _ in self._delayed]
        if places:
            self._store.run("expire_again", places=as_json(places))

    def _requeue(self, held: LiveLease, attempt: int, after: timedelta) -> None:
        if after > ZERO:
            due = self._now + micros(after)
            self._delayed.append((held.run, held.host_queue, held.place, attempt, due))
            self._end(held, DELAYED)
        else:
            self._ready.append((held.host_queue, held.place, attempt))
            self._end(held, PENDING)

    def _end(self, held: LiveLease, target: CounterColumn) -> None:
        self._ended.append(held.token)
        self._counters.move(held.host_queue, held.step_group, LEASED, target)
        self._counters.touch(held.host)


def settle(store: Store, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
    """Settle (ack): apply the outcomes of live leases; the others are stale."""
    held = live_leases(store, [one.outcome.lease for one in outcomes])
    batch = SettleBatch(store)
    fates = []
    for one in outcomes:
        lease = _pop_live(held, one.outcome.lease)
        if lease:
            _apply(batch, lease, one)
            if not one.outcome.asked:
                batch.give_back_start(lease)
        fates.append(Fate.ACCEPTED if lease else Fate.STALE)
    if Fate.ACCEPTED in fates:
        batch.write()
    return fates


def live_leases(store: Store, leases: Iterable[Lease]) -> dict[int, LiveLease]:
    """Return those of the leases that are live, by token."""
    tokens = as_json([lease.token for lease in leases])
    return {held.token: held for held in store.read("lease_held", list[LiveLease], tokens=tokens)}


def _pop_live(held: dict[int, LiveLease], lease: Lease) -> LiveLease | None:
    """Remove a live lease from `held`, so that a second outcome for it is stale."""
    return held.pop(lease.token) if is_same(held.get(lease.token), lease) else None


def is_same(held: LiveLease | None, lease: Lease) -> bool:
    """Return whether a live lease is the one that its holder means; a token alone does not say the run."""
    return held is not None and held.task_id == lease.task_id and held.run_id == lease.run_id


def _apply(batch: SettleBatch, held: LiveLease, one: PreparedOutcome) -> None:
    match one.outcome:
        case Done(pause_host=pause, slow_host=slow):
            batch.complete(held, one.items, one.rejects, one.follow)
            batch.adjust_host(held, pause, slow)
        case Retry(after=after, pause_host=pause, slow_host=slow) as retry:
            batch.fail(held, failure_text(retry), bury=False, after=after)
            batch.adjust_host(held, pause, slow)
        case Bury(pause_host=pause, slow_host=slow) as burial:
            batch.fail(held, failure_text(burial), bury=True)
            batch.adjust_host(held, pause, slow)
        case Release(after=after, slow_host=slow):
            batch.release(held, after)
            batch.adjust_host(held, None, slow)
        case _:
            assert_never(one.outcome)
