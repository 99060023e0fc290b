"""Obeying outcomes: each whole or not at all, and only from the holder of the lease."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

import msgspec

from shoal.core.model import Bury, Done, Fate, Lease, Outcome, Release, Retry, error_text
from shoal.queue.intake import Entry, Intake, encode_item
from shoal.queue.sqlite.endings import Endings, Held
from shoal.queue.sqlite.moment import micros
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json, storable


class Settlement(msgspec.Struct):
    """An outcome, and what it carries made ready for the store."""

    outcome: Outcome
    items: Sequence[str] = ()
    rejects: Sequence[tuple[str, str]] = ()
    follow: Sequence[Entry] = ()


def prepare(outcomes: Iterable[Outcome], intakes: Mapping[str, Intake]) -> list[Settlement]:
    """Check what the outcomes carry; raises InvalidItem or InvalidTask.

    There is an intake for every run whose outcomes bring follow-up tasks.
    """
    return [
        _prepared(outcome, intakes.get(outcome.lease.run_id))
        if isinstance(outcome, Done)
        else Settlement(outcome)
        for outcome in outcomes
    ]


def _prepared(done: Done, intake: Intake | None) -> Settlement:
    return Settlement(
        done,
        items=[encode_item(data) for data in done.items],
        rejects=[(encode_item(reject.data), storable(reject.reason)) for reject in done.rejects],
        follow=[intake.entry(task) for task in done.follow] if intake else (),
    )


def settle(store: Store, settlements: Sequence[Settlement]) -> list[Fate]:
    """Obey the outcomes of leases that are live; the others are stale."""
    held = _held(store, [settlement.outcome.lease for settlement in settlements])
    endings = Endings(store)
    fates = []
    for settlement in settlements:
        lease = _taken(held, settlement.outcome.lease)
        if lease:
            _obey(endings, lease, settlement)
            if not settlement.outcome.asked:
                endings.give_back(lease)
        fates.append(Fate.ACCEPTED if lease else Fate.STALE)
    if Fate.ACCEPTED in fates:
        endings.write()
    return fates


def extend(store: Store, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
    """Move the deadlines of the leases that are live."""
    held = _held(store, leases)
    fates = [Fate.ACCEPTED if _same(held.get(one.token), one) else Fate.STALE for one in leases]
    live = [one.token for one, fate in zip(leases, fates, strict=True) if fate is Fate.ACCEPTED]
    store.tell("lease_extend", tokens=as_json(live), deadline=store.now() + micros(lease))
    return fates


def _held(store: Store, leases: Iterable[Lease]) -> dict[int, Held]:
    tokens = as_json([lease.token for lease in leases])
    return {held.token: held for held in store.read("lease_held", list[Held], tokens=tokens)}


def _taken(held: dict[int, Held], lease: Lease) -> Held | None:
    """Take a live lease out of `held`, so that a second outcome for it finds nothing."""
    return held.pop(lease.token) if _same(held.get(lease.token), lease) else None


def _same(held: Held | None, lease: Lease) -> bool:
    return held is not None and held.task_id == lease.task_id and held.run_id == lease.run_id


def _obey(endings: Endings, held: Held, settlement: Settlement) -> None:
    match settlement.outcome:
        case Done(pause_host=pause, slow_host=slow):
            endings.complete(held, settlement.items, settlement.rejects, settlement.follow)
            endings.treat(held, pause, slow)
        case Retry(error=error, after=after, pause_host=pause, slow_host=slow):
            endings.fail(held, storable(error_text(error)), bury=False, after=after)
            endings.treat(held, pause, slow)
        case Bury(error=error, pause_host=pause, slow_host=slow):
            endings.fail(held, storable(error_text(error)), bury=True)
            endings.treat(held, pause, slow)
        case Release(after=after):
            endings.release(held, after)
        case _:
            assert_never(settlement.outcome)
