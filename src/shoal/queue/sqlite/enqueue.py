"""Letting tasks in: each key of a (run, step) once."""

from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.core.model import EnqueueReport
from shoal.queue.intake import Entry
from shoal.queue.sqlite import known, runs
from shoal.queue.sqlite.moment import micros
from shoal.queue.sqlite.store import LaneName, Store
from shoal.queue.sqlite.texts import as_json

MOST_REMEMBERED = 100_000  # lanes of one run

Row = tuple[Any, ...]  # as task_add.sql takes it
_TTL, _DELAY = 6, 7


class Receipt(msgspec.Struct):
    """How many keys were new, how many other runs have queued, and the lanes that the new ones went to."""

    added: int
    known: int
    lanes: Sequence[int]


def enqueue(store: Store, run_id: str, entries: Sequence[Entry]) -> EnqueueReport:
    """Add tasks to a run, and say what became of them; raises UnknownRun."""
    run = runs.known(store, run_id)
    receipt = put(store, run.no, run.ttl, entries, store.now())
    if receipt.added:
        store.tell("arm", lanes=as_json(receipt.lanes), hosts="[]")
    duplicate = len(entries) - receipt.added - receipt.known
    return EnqueueReport(added=receipt.added, duplicate=duplicate, known=receipt.known)


def put(store: Store, run: int, ttl: int | None, entries: Sequence[Entry], now: int) -> Receipt:
    """Add tasks to a run; the caller arms the lanes."""
    offered = len(entries)
    entries = known.leave_out(store, run, entries, now)
    left_out = offered - len(entries)
    lanes = _lanes(store, run, {(entry.step, entry.partition, entry.host) for entry in entries})
    rows = [_row(run, ttl, now, lanes, entry) for entry in entries]
    added = store.many("task_add", rows)
    if not added:
        return Receipt(0, left_out, ())
    # Nobody else writes: the new tasks have the numbers up to the last one.
    last = store.connection.last_insert_rowid() - added
    _place(store, last, now, rows)
    return Receipt(added, left_out, store.read("task_lanes", list[int], last=last))


def _row(run: int, ttl: int | None, now: int, lanes: dict[LaneName, int], entry: Entry) -> Row:
    own_ttl = ttl if entry.ttl is None else micros(entry.ttl)
    return (
        run,
        now,
        entry.id,
        lanes[entry.step, entry.partition, entry.host],
        entry.priority,
        entry.depth,
        own_ttl if ttl is None or own_ttl is None else min(ttl, own_ttl),
        micros(entry.delay) if entry.delay else None,
        entry.url,
        entry.key,
        None if entry.payload == "{}" else entry.payload,
    )


def _lanes(store: Store, run: int, names: set[LaneName]) -> dict[LaneName, int]:
    """Return the numbers of lanes, and make those that are missing."""
    remembered = store.lanes.setdefault(run, {})
    strangers = names - remembered.keys()
    if strangers:
        _meet(store, run, list(strangers), remembered)
    found = {name: remembered[name] for name in names}
    if len(remembered) > MOST_REMEMBERED:
        remembered.clear()
    return found


def _meet(store: Store, run: int, names: list[LaneName], remembered: dict[LaneName, int]) -> None:
    text = as_json(names)
    found = store.read("lane_find", list[int | None], run=run, names=text)
    if None in found:
        store.tell("lane_add_hosts", names=text)
        store.tell("lane_add_sections", run=run, names=text)
        store.tell("lane_add", run=run, names=text)
        found = store.read("lane_find", list[int | None], run=run, names=text)
    remembered.update((name, lane) for name, lane in zip(names, found, strict=True) if lane is not None)


def _place(store: Store, last: int, now: int, rows: Sequence[Row]) -> None:
    """Let the tasks behind `last` wait where they belong, and count them."""
    store.tell("task_make_ready", last=last)
    if any(row[_DELAY] is not None for row in rows):
        store.tell("task_make_delayed", last=last, now=now)
    if any(row[_TTL] is not None for row in rows):
        store.tell("task_make_mortal", last=last)
    store.tell("task_count_lanes", last=last)
    store.tell("task_count_sections", last=last)
