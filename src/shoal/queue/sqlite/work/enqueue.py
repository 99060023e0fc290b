"""Enqueue tasks: each key of a (run, step) once; the next batch is prepared while the last is written."""

import asyncio
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from shoal.core.model import EnqueueReport, Task
from shoal.queue.contract import Tasks
from shoal.queue.intake import QueuedTask
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.encoding import as_json, micros
from shoal.queue.sqlite.store import LaneName, Store
from shoal.queue.sqlite.thread import ConnectionThread
from shoal.queue.sqlite.work import known

BATCH = 5_000  # tasks; fewer cause more page writes per task, more block other writers for longer
TASKS_PER_YIELD = 128


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


class EnqueuePipeline:
    """Enqueues batches, one being written at a time, and sums their reports."""

    def __init__(self, writer: ConnectionThread, run_id: str) -> None:
        self.report = EnqueueReport()
        self._writer, self._run_id = writer, run_id
        self._writing: asyncio.Future[EnqueueReport] | None = None

    async def add(self, batch: Sequence[QueuedTask]) -> None:
        """Wait for the last batch, and start writing this one."""
        await self._finish()
        self._writing = self._writer.post(enqueue, self._run_id, batch)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self._finish()
        elif self._writing:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _finish(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self.report += await writing


MAX_CACHED_LANES = 100_000  # per run

Row = tuple[Any, ...]  # as the query task_add takes it
_TTL, _DELAY = 6, 7


class AddReport(msgspec.Struct):
    """The number of new keys, of keys known from other runs, and the lanes of the new tasks."""

    added: int
    known: int
    lanes: Sequence[int]


def enqueue(store: Store, run_id: str, entries: Sequence[QueuedTask]) -> EnqueueReport:
    """Add tasks to a run, and return a report; raises UnknownRun."""
    run = runs.get_row(store, run_id)
    report = add_tasks(store, run.no, run.ttl, entries, store.now())
    if report.added:
        store.run("arm", lanes=as_json(report.lanes), hosts="[]")
    duplicate = len(entries) - report.added - report.known
    return EnqueueReport(added=report.added, duplicate=duplicate, known=report.known)


def add_tasks(store: Store, run: int, ttl: int | None, entries: Sequence[QueuedTask], now: int) -> AddReport:
    """Add tasks to a run; the caller recomputes when the lanes are due (`arm`)."""
    total = len(entries)
    entries = known.skip_known(store, run, entries, now)
    skipped = total - len(entries)
    lanes = lane_ids(store, run, {(entry.step, entry.partition, entry.host) for entry in entries})
    rows = [_task_row(run, ttl, now, lanes, entry) for entry in entries]
    added = store.run_many("task_add", rows)
    if not added:
        return AddReport(0, skipped, ())
    # No one else writes in this transaction: the new tasks have consecutive numbers up to the last one.
    last = store.connection.last_insert_rowid() - added
    _set_state(store, last, now, rows)
    return AddReport(added, skipped, store.read("task_lanes", list[int], last=last))


def _task_row(run: int, ttl: int | None, now: int, lanes: dict[LaneName, int], entry: QueuedTask) -> Row:
    # One without a time to live carries other tasks or an item: the intake gives the run's to all others.
    own_ttl = None if entry.ttl is None else micros(entry.ttl)
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


def lane_ids(store: Store, run: int, names: set[LaneName]) -> dict[LaneName, int]:
    """Return the numbers of lanes, and create the missing ones."""
    cached = store.lanes.setdefault(run, {})
    missing = names - cached.keys()
    if missing:
        _find_or_create(store, run, list(missing), cached)
    found = {name: cached[name] for name in names}
    if len(cached) > MAX_CACHED_LANES:
        cached.clear()
    return found


def _find_or_create(store: Store, run: int, names: list[LaneName], cached: dict[LaneName, int]) -> None:
    text = as_json(names)
    found = store.read("lane_find", list[int | None], run=run, names=text)
    if None in found:
        store.run("lane_add_hosts", names=text)
        store.run("lane_add_sections", run=run, names=text)
        store.run("lane_add", run=run, names=text)
        found = store.read("lane_find", list[int | None], run=run, names=text)
    cached.update((name, lane) for name, lane in zip(names, found, strict=True) if lane is not None)


def _set_state(store: Store, last: int, now: int, rows: Sequence[Row]) -> None:
    """Make the tasks after `last` pending or delayed, and count them."""
    store.run("task_make_ready", last=last)
    if any(row[_DELAY] is not None for row in rows):
        store.run("task_make_delayed", last=last, now=now)
    if any(row[_TTL] is not None for row in rows):
        store.run("task_make_mortal", last=last)
    store.run("task_count_lanes", last=last)
    store.run("task_count_sections", last=last)
