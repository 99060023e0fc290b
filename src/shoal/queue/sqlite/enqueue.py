"""Enqueue tasks, but no duplicate: each key of a (run, step) once, with `dedup` once for all runs."""

import time
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from shoal.core.model import EnqueueReport, Task
from shoal.queue.encoding import micros
from shoal.queue.intake import QueuedTask
from shoal.queue.requests import Tasks
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import HostQueueName, Store, as_json

BATCH = 5_000  # tasks; fewer cause more page writes per task, more block other writers for longer
TASKS_PER_YIELD = 128
MAX_CACHED_HOST_QUEUES = 100_000  # per run
FORGET_BATCH = 2_000  # keys that are forgotten in one transaction
FIRST_KEY = ""

Row = tuple[Any, ...]  # as the query task_add takes it
_TTL, _DELAY = 6, 7


def yield_gil(tasks: Tasks) -> Tasks:
    """Return the same tasks, releasing the GIL every YIELD_INTERVAL tasks.

    Otherwise the writer thread gets it only every five milliseconds, and hardly anything runs in parallel.
    """
    return tasks if isinstance(tasks, AsyncIterable) else _yield_gil(tasks)


def _yield_gil(tasks: Iterable[Task]) -> Iterator[Task]:
    for count, task in enumerate(tasks):
        if not count % TASKS_PER_YIELD:
            time.sleep(0)
        yield task


class AddReport(msgspec.Struct):
    """The number of new keys, of keys known from other runs, and the host queues of the new tasks."""

    added: int
    known: int
    host_queues: Sequence[int]


def enqueue(store: Store, run_id: str, tasks: Sequence[QueuedTask]) -> EnqueueReport:
    """Add tasks to a run, and return a report; raises UnknownRun."""
    run = runs.get_row(store, run_id)
    report = add_tasks(store, run.no, run.ttl, tasks, store.now())
    if report.added:
        store.run("arm", host_queues=as_json(report.host_queues), hosts="[]")
    duplicate = len(tasks) - report.added - report.known
    return EnqueueReport(added=report.added, duplicate=duplicate, known=report.known)


def add_tasks(store: Store, run: int, ttl: int | None, entries: Sequence[QueuedTask], now: int) -> AddReport:
    """Add tasks to a run; the caller recomputes when the host queues are due (`arm`)."""
    total = len(entries)
    entries = skip_known(store, run, entries, now)
    skipped = total - len(entries)
    host_queues = host_queue_ids(store, run, {(entry.step, entry.partition, entry.host) for entry in entries})
    rows = [_task_row(run, ttl, now, host_queues, entry) for entry in entries]
    added = store.run_many("task_add", rows)
    if not added:
        return AddReport(0, skipped, ())
    # No one else writes in this transaction: the new tasks have consecutive numbers up to the last one.
    last = store.connection.last_insert_rowid() - added
    _set_state(store, last, now, rows)
    return AddReport(added, skipped, store.read("task_host_queues", list[int], last=last))


def _task_row(
    run: int, ttl: int | None, now: int, host_queues: dict[HostQueueName, int], entry: QueuedTask
) -> Row:
    # One without a time to live carries other tasks or an item: the intake gives the run's to all others.
    own_ttl = None if entry.ttl is None else micros(entry.ttl)
    return (
        run,
        now,
        entry.id,
        host_queues[entry.step, entry.partition, entry.host],
        entry.priority,
        entry.depth,
        own_ttl if ttl is None or own_ttl is None else min(ttl, own_ttl),
        micros(entry.delay) if entry.delay else None,
        entry.url,
        entry.key,
        None if entry.payload == "{}" else entry.payload,
    )


def host_queue_ids(store: Store, run: int, names: set[HostQueueName]) -> dict[HostQueueName, int]:
    """Return the numbers of host queues, and create the missing ones."""
    cached = store.host_queues.setdefault(run, {})
    missing = names - cached.keys()
    if missing:
        _find_or_create(store, run, list(missing), cached)
    found = {name: cached[name] for name in names}
    if len(cached) > MAX_CACHED_HOST_QUEUES:
        cached.clear()
    return found


def _find_or_create(
    store: Store, run: int, names: list[HostQueueName], cached: dict[HostQueueName, int]
) -> None:
    text = as_json(names)
    found = store.read("host_queue_find", list[int | None], run=run, names=text)
    if None in found:
        store.run("host_queue_add_hosts", names=text)
        store.run("host_queue_add_step_groups", run=run, names=text)
        store.run("host_queue_add", run=run, names=text)
        found = store.read("host_queue_find", list[int | None], run=run, names=text)
    cached.update(
        (name, host_queue) for name, host_queue in zip(names, found, strict=True) if host_queue is not None
    )


def _set_state(store: Store, last: int, now: int, rows: Sequence[Row]) -> None:
    """Make the tasks after `last` pending or delayed, and count them."""
    store.run("task_make_ready", last=last)
    if any(row[_DELAY] is not None for row in rows):
        store.run("task_make_delayed", last=last, now=now)
    if any(row[_TTL] is not None for row in rows):
        store.run("task_make_expiring", last=last)
    store.run("task_count_host_queues", last=last)
    store.run("task_count_step_groups", last=last)


# Deduplication across the runs of a scraper: `RunSettings.dedup`.


def skip_known(store: Store, run: int, entries: Sequence[QueuedTask], now: int) -> Sequence[QueuedTask]:
    """Return the tasks that no other run has queued, and record that this run queues them."""
    given = [
        (position, entry.id.hex(), entry.scraper_key.hex())
        for position, entry in enumerate(entries)
        if entry.scraper_key is not None
    ]
    if not given:
        return entries
    found = store.read("dedup_look", list[tuple[int, int]], run=run, now=now, given=as_json(given))
    store.run_many(
        "dedup_add", [(run, now, entries[position].scraper_key) for position, known in found if not known]
    )
    known = {position for position, known in found if known}
    return [entry for position, entry in enumerate(entries) if position not in known] if known else entries


def expire_known(store: Store, now: int) -> bool:
    """Delete some expired keys; return whether there may be more."""
    return store.run("dedup_expire", now=now, limit=FORGET_BATCH) == FORGET_BATCH


def forget_known(store: Store, scraper: str, after: str) -> tuple[int, str] | None:
    """Delete the next keys of a scraper after `after`.

    Returns how many of them had not expired, and the last one; None when none are left.
    """
    now = store.now()
    page = store.find(
        "dedup_page", tuple[float, str], scraper=scraper, after=after, now=now, limit=FORGET_BATCH
    )
    if page is None:
        return None
    count, last = page
    store.run("dedup_forget", scraper=scraper, after=after, last=last)
    return int(count), last
