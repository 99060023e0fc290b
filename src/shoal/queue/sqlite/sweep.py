"""What time alone moves: leases that are lost, delays that are over, tasks that outlived their time."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from shoal.queue.sqlite import known, notes, purge
from shoal.queue.sqlite.endings import Endings, Held
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.tally import DELAYED, EXPIRED, PENDING, Tally
from shoal.queue.sqlite.texts import as_json

LEASE_LOST = "lease lost"
AT_ONCE = 1_000
MOST = (
    2 * AT_ONCE
)  # of each kind in one transaction: about a tenth of a second, in which nobody else can write


Move = Callable[[Store, Tally, int, int], int]


class Passed(NamedTuple):
    """Whether one transaction was enough for all that time has moved."""

    all_expired: bool
    all_promoted: bool


class Outlived(msgspec.Struct, array_like=True, frozen=True):
    """A task whose time to live is over."""

    lane: int
    section: int
    place: int
    pending: int
    delayed: int


class Due(msgspec.Struct, array_like=True, frozen=True):
    """A task whose delay is over."""

    lane: int
    section: int
    place: int
    attempt: int


def reclaim(store: Store) -> tuple[int, bool]:
    """Let time pass in every run; return how many leases were taken back, and whether there is more to do."""
    now = store.now()
    count = take_back_lost(store, now)
    more = count == MOST
    for run in store.read("sweep_runs", list[int], now=now):
        if more:
            break
        more = not all(let_time_pass(store, now, run=run))
    purge.clear(store)  # some of what a purge left that was cut short
    notes.fade(store)
    return count, known.expire(store, now) or more


def take_back_lost(store: Store, now: int) -> int:
    """End leases whose deadline has passed, and return how many: MOST if there may be more."""
    count = 0
    while count < MOST and (lost := store.read("lease_lost", list[Held], now=now, limit=AT_ONCE)):
        endings = Endings(store)
        for held in lost:
            endings.fail(held, LEASE_LOST, bury=False)
        endings.write()
        count += len(lost)
    return count


def let_time_pass(store: Store, now: int, *, run: int) -> Passed:
    """Expire tasks of a run that outlived their time, and make those pending whose delay is over."""
    tally = Tally()
    all_expired = _all(_expire, store, tally, run, now)
    all_promoted = all_expired and _all(_promote, store, tally, run, now)
    tally.write(store)
    return Passed(all_expired, all_promoted)


def _all(move: Move, store: Store, tally: Tally, run: int, now: int) -> bool:
    """Move some tasks at a time; False when some may be left."""
    return any(move(store, tally, run, now) < AT_ONCE for _ in range(MOST // AT_ONCE))


def _expire(store: Store, tally: Tally, run: int, now: int) -> int:
    looked = store.read("sweep_outlived", list[Outlived], run=run, now=now, limit=AT_ONCE)
    if not looked:
        return 0
    store.tell("sweep_looked", run=run, now=now, limit=AT_ONCE)
    waiting = [task for task in looked if task.pending or task.delayed]
    for task in waiting:
        tally.move(task.lane, task.section, PENDING if task.pending else DELAYED, EXPIRED)
    places = as_json([task.place for task in waiting])
    store.tell("ready_remove", tasks=as_json([(task.lane, task.place) for task in waiting]))
    store.tell("delayed_remove", places=places)
    store.tell("sweep_expire", run=run, now=now, places=places)
    return len(looked)


def _promote(store: Store, tally: Tally, run: int, now: int) -> int:
    due = store.read("sweep_due", list[Due], run=run, now=now, limit=AT_ONCE)
    if not due:
        return 0
    for task in due:
        tally.move(task.lane, task.section, DELAYED, PENDING)
    store.tell("delayed_remove", places=as_json([task.place for task in due]))
    store.many("ready_add", [(task.lane, task.place, task.attempt) for task in due])
    return len(due)
