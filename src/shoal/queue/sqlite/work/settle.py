"""Settle outcomes: each atomically, and only for the holder of the lease."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

import msgspec

from shoal.core.failures import failure_text
from shoal.core.model import Bury, Done, Fate, Lease, Outcome, Release, Retry
from shoal.queue.intake import Intake, QueuedTask, encode_item
from shoal.queue.sqlite.encoding import as_json, micros, storable
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.work.settle_batch import LiveLease, SettleBatch


class PreparedOutcome(msgspec.Struct):
    """An outcome with its items, rejects and follow-up tasks encoded for the store."""

    outcome: Outcome
    items: Sequence[str] = ()
    rejects: Sequence[tuple[str, str]] = ()
    follow: Sequence[QueuedTask] = ()


def prepare(outcomes: Iterable[Outcome], intakes: Mapping[str, Intake]) -> list[PreparedOutcome]:
    """Check and encode outcomes; raises InvalidItem or InvalidTask.

    `intakes` has an intake for every run whose outcomes have follow-up tasks.
    """
    return [
        _prepare_done(outcome, intakes.get(outcome.lease.run_id))
        if isinstance(outcome, Done)
        else PreparedOutcome(outcome)
        for outcome in outcomes
    ]


def _prepare_done(done: Done, intake: Intake | None) -> PreparedOutcome:
    return PreparedOutcome(
        done,
        items=[encode_item(data) for data in done.items],
        rejects=[(encode_item(reject.data), storable(reject.reason)) for reject in done.rejects],
        follow=[intake.follow_up(task) for task in done.follow] if intake else (),
    )


def settle(store: Store, settlements: Sequence[PreparedOutcome]) -> list[Fate]:
    """Apply the outcomes of live leases; the others are stale."""
    held = _live_leases(store, [settlement.outcome.lease for settlement in settlements])
    batch = SettleBatch(store)
    fates = []
    for settlement in settlements:
        lease = _pop_live(held, settlement.outcome.lease)
        if lease:
            _apply(batch, lease, settlement)
            if not settlement.outcome.asked:
                batch.give_back_start(lease)
        fates.append(Fate.ACCEPTED if lease else Fate.STALE)
    if Fate.ACCEPTED in fates:
        batch.write()
    return fates


def extend(store: Store, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
    """Extend the deadlines of live leases."""
    held = _live_leases(store, leases)
    fates = [Fate.ACCEPTED if _is_same(held.get(one.token), one) else Fate.STALE for one in leases]
    live = [one.token for one, fate in zip(leases, fates, strict=True) if fate is Fate.ACCEPTED]
    store.run("lease_extend", tokens=as_json(live), deadline=store.now() + micros(lease))
    return fates


def extend_worker(store: Store, worker_id: str, lease: timedelta) -> int:
    """Extend the deadlines of a worker's leases that have not passed, and return their number."""
    now = store.now()
    return store.run("lease_extend_worker", worker_id=worker_id, now=now, deadline=now + micros(lease))


def _live_leases(store: Store, leases: Iterable[Lease]) -> dict[int, LiveLease]:
    tokens = as_json([lease.token for lease in leases])
    return {held.token: held for held in store.read("lease_held", list[LiveLease], tokens=tokens)}


def _pop_live(held: dict[int, LiveLease], lease: Lease) -> LiveLease | None:
    """Remove a live lease from `held`, so that a second outcome for it is stale."""
    return held.pop(lease.token) if _is_same(held.get(lease.token), lease) else None


def _is_same(held: LiveLease | None, lease: Lease) -> bool:
    return held is not None and held.task_id == lease.task_id and held.run_id == lease.run_id


def _apply(batch: SettleBatch, held: LiveLease, settlement: PreparedOutcome) -> None:
    match settlement.outcome:
        case Done(pause_host=pause, slow_host=slow):
            batch.complete(held, settlement.items, settlement.rejects, settlement.follow)
            batch.treat_host(held, pause, slow)
        case Retry(after=after, pause_host=pause, slow_host=slow) as retry:
            batch.fail(held, storable(failure_text(retry)), bury=False, after=after)
            batch.treat_host(held, pause, slow)
        case Bury(pause_host=pause, slow_host=slow) as burial:
            batch.fail(held, storable(failure_text(burial)), bury=True)
            batch.treat_host(held, pause, slow)
        case Release(after=after, slow_host=slow):
            batch.release(held, after)
            batch.treat_host(held, None, slow)
        case _:
            assert_never(settlement.outcome)
