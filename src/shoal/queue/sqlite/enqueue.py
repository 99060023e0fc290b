"""Letting tasks in: each key of a (run, step) once."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.queue.intake import Entry
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.moment import micros, optional_micros
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json, as_lists, encode

LaneName = tuple[str, str, str]  # step, partition, host


@dataclass(frozen=True, slots=True)
class Parcel:
    """One task, packed for the store."""

    lane: LaneName
    fields: bytes  # the end of a JSON list; its beginning is the lane


@dataclass(frozen=True, slots=True)
class Receipt:
    """How many keys were new, and the lanes that they may have gone to."""

    added: int
    lanes: Sequence[int]


def pack(entry: Entry) -> Parcel:
    """Pack a task, away from the thread that writes."""
    fields = (
        entry.id.hex(),
        entry.priority,
        entry.depth,
        optional_micros(entry.ttl),
        micros(entry.delay) if entry.delay else None,
        entry.url,
        entry.key,
        None if entry.payload == "{}" else entry.payload,
    )
    return Parcel((entry.step, entry.partition, entry.host), encode(fields)[1:])


def enqueue(store: Store, run_id: str, parcels: Sequence[Parcel]) -> int:
    """Add tasks to a run, and return how many keys were new; raises UnknownRun."""
    run = runs.known(store, run_id)
    receipt = put(store, run.no, run.ttl, parcels, store.now())
    if receipt.added:
        store.tell("arm", lanes=as_json(receipt.lanes), hosts="[]")
    return receipt.added


def put(store: Store, run: int, ttl: int | None, parcels: Sequence[Parcel], now: int) -> Receipt:
    """Add tasks to a run; the caller arms the lanes."""
    positions: dict[LaneName, int] = {}
    for parcel in parcels:
        positions.setdefault(parcel.lane, len(positions))
    lanes = _lanes(store, run, as_json(list(positions)))
    last = store.value("task_last")
    rows = (b"[%d,%b" % (positions[parcel.lane], parcel.fields) for parcel in parcels)
    added = 0
    for tasks in as_lists(rows):
        added += store.tell("task_add", run=run, ttl=ttl, now=now, lanes=as_json(lanes), tasks=tasks)
    if added:
        _place(store, last, now)
    return Receipt(added, lanes)


def _lanes(store: Store, run: int, names: str) -> list[int]:
    """Return the numbers of lanes, and make those that are missing."""
    found = store.read("lane_find", list[int | None], run=run, names=names)
    if None in found:
        store.tell("lane_add_hosts", names=names)
        store.tell("lane_add_sections", run=run, names=names)
        store.tell("lane_add", run=run, names=names)
        found = store.read("lane_find", list[int | None], run=run, names=names)
    return [lane for lane in found if lane is not None]


def _place(store: Store, last: int, now: int) -> None:
    """Let the tasks behind `last` wait where they belong, and count them."""
    store.tell("task_make_ready", last=last)
    store.tell("task_make_delayed", last=last, now=now)
    store.tell("task_make_mortal", last=last)
    store.tell("task_count_lanes", last=last)
    store.tell("task_count_sections", last=last)
