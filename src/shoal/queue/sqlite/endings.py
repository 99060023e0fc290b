"""How leases end: gathered one by one, written together."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from shoal.core.model import ZERO
from shoal.queue.intake import Entry
from shoal.queue.sqlite import starts
from shoal.queue.sqlite.enqueue import put
from shoal.queue.sqlite.moment import micros
from shoal.queue.sqlite.rows import NO_HOST
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.tally import (
    COMPLETED,
    DEAD,
    DELAYED,
    ITEMS,
    LEASED,
    PENDING,
    REJECTED,
    Column,
    Tally,
)
from shoal.queue.sqlite.texts import as_json


class Held(msgspec.Struct, array_like=True):
    """A live lease, with what its ending needs."""

    token: int
    task_id: str
    run_id: str
    run: int
    lane: int
    section: int
    place: int
    host: int
    attempt: int
    worker: int
    max_attempts: int
    ttl: int | None
    start: int | None


class Endings:
    """The endings of some leases, and all that comes with them."""

    def __init__(self, store: Store) -> None:
        self._store, self._now, self._tally = store, store.now(), Tally()
        self._ended: list[int] = []
        self._ready: list[tuple[int, int, int]] = []
        self._delayed: list[tuple[int, int, int, int, int]] = []
        self._dead: list[tuple[int, int, int, int, str]] = []
        self._failures: list[tuple[int, int, int, int, int, str]] = []
        self._items: list[tuple[int, int, int, int, str]] = []
        self._rejects: list[tuple[int, int, int, int, str, str]] = []
        self._yielded: list[tuple[int, int, int]] = []
        self._follow: dict[tuple[int, int | None], list[Entry]] = {}
        self._treatments: dict[int, list[int | None]] = {}
        self._unused: dict[int, list[int]] = {}  # starts, by host

    def complete(
        self, held: Held, items: Sequence[str], rejects: Sequence[tuple[str, str]], follow: Sequence[Entry]
    ) -> None:
        """The task is done."""
        where = held.run, held.section, held.place, self._now
        self._items += [(*where, data) for data in items]
        self._rejects += [(*where, data, reason) for data, reason in rejects]
        if items:
            self._yielded.append((held.place, len(items), self._now))
        if follow:
            self._follow.setdefault((held.run, held.ttl), []).extend(follow)
        self._end(held, COMPLETED)
        self._tally.add(held.lane, ITEMS, len(items))
        self._tally.add(held.lane, REJECTED, len(rejects))
        self._tally.credit(held.worker, completed=1, items=len(items))

    def fail(self, held: Held, error: str, *, bury: bool, after: timedelta = ZERO) -> None:
        """The attempt failed: the task goes back to wait, or dies."""
        self._failures.append((held.place, held.token, held.attempt, held.worker, self._now, error))
        self._tally.credit(held.worker, failed=1)
        if bury or held.attempt >= held.max_attempts:
            self._dead.append((held.run, held.place, held.attempt, self._now, error))
            self._end(held, DEAD)
        else:
            self._wait(held, held.attempt, after)

    def release(self, held: Held, after: timedelta = ZERO) -> None:
        """The task was not tried: it gets its attempt back."""
        self._wait(held, held.attempt - 1, after)

    def treat(self, held: Held, pause: timedelta | None, slow: timedelta | None) -> None:
        """Pause or slow the host of a lease."""
        if held.host == NO_HOST or (pause is None and slow is None):
            return
        treatment = self._treatments.setdefault(held.host, [None, None])
        if pause is not None:
            treatment[0] = max(treatment[0] or 0, self._now + micros(pause))
        if slow is not None:
            treatment[1] = micros(slow)

    def give_back(self, held: Held) -> None:
        """The host of a lease was not asked: another may have its start."""
        if held.host != NO_HOST and held.start is not None:
            self._unused.setdefault(held.host, []).append(held.start)

    def write(self) -> None:
        """Write all of it, in the caller's transaction."""
        store = self._store
        store.tell("lease_end", tokens=as_json(self._ended))
        self._write_waiting()
        store.many("failure_add", self._failures)
        store.many("dead_add", self._dead)
        store.many("item_add", self._items)
        store.many("reject_add", self._rejects)
        store.many("yielded_add", self._yielded)
        store.many("host_treat", [(host, *how) for host, how in self._treatments.items()])
        self._write_starts()
        for (run, ttl), entries in self._follow.items():
            self._tally.touch_lanes(put(store, run, ttl, entries, self._now).lanes)
        self._tally.write(store)

    def _write_starts(self) -> None:
        if self._unused:
            hosts = starts.read(self._store, self._unused)
            left = [
                (host.id, starts.without(known, self._unused[host.id]))
                for host in hosts
                if len(known := host.starts()) > 1
            ]
            starts.write(self._store, left)

    def _write_waiting(self) -> None:
        self._store.many("ready_add", self._ready)
        self._store.many("delayed_add", self._delayed)
        places = [place for _, place, _ in self._ready] + [place for _, _, place, _, _ in self._delayed]
        if places:
            self._store.tell("mortal_again", places=as_json(places))

    def _wait(self, held: Held, attempt: int, after: timedelta) -> None:
        if after > ZERO:
            due = self._now + micros(after)
            self._delayed.append((held.run, held.lane, held.place, attempt, due))
            self._end(held, DELAYED)
        else:
            self._ready.append((held.lane, held.place, attempt))
            self._end(held, PENDING)

    def _end(self, held: Held, target: Column) -> None:
        self._ended.append(held.token)
        self._tally.move(held.lane, held.section, LEASED, target)
        self._tally.touch(held.host)
