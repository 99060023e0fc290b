"""Read queries: counts, and lists page by page."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from shoal.core.model import (
    Attempt,
    Counts,
    DeadFilter,
    DeadLetter,
    ExpiredTask,
    HostStatus,
    Stats,
    StoredItem,
    StoredReject,
    WorkerStatus,
)
from shoal.queue.contract import StoreSize
from shoal.queue.cursors import cursor_of
from shoal.queue.intake import decode
from shoal.queue.sqlite import admin, runs
from shoal.queue.sqlite.encoding import TaskRow, as_json, duration, moment
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.work.counters import COUNTS

Position = TypeVar("Position")
T = TypeVar("T")
Page = tuple[Position | None, list[T]]

PAGE = 500
MAX_PAGE_BYTES = 8 << 20  # a page ends early after this


class ItemRow(msgspec.Struct, array_like=True, frozen=True):
    """An item, or a reject with its reason."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: str
    stored_at: int
    reason: str = ""

    def fields(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "task_id": self.task_id,
            "url": self.url,
            "step": self.step,
            "data": decode(self.data),
            "stored_at": moment(self.stored_at),
        }


class DeadRow(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter with its history."""

    no: int
    id: str
    attempts: int
    error: str
    buried_at: int
    task: TaskRow
    history: list[tuple[int, str, str, int]]

    def letter(self) -> DeadLetter:
        return DeadLetter(
            id=self.id,
            task=self.task.task(),
            attempts=self.attempts,
            error=self.error,
            history=[_attempt(*failure) for failure in self.history],
            buried_at=moment(self.buried_at),
            cursor=cursor_of(self.no),
        )


class WorkerRow(msgspec.Struct, array_like=True, frozen=True):
    """A worker in a run."""

    worker_id: str
    run_id: str
    state: str
    info: str
    beat_at: int
    leased: int
    completed: int
    failed: int
    items: int

    def status(self, now: int) -> WorkerStatus:
        return WorkerStatus(
            worker_id=self.worker_id,
            run_id=self.run_id,
            state=self.state,
            info=decode(self.info),
            last_beat=duration(now - self.beat_at),
            leased=self.leased,
            completed=self.completed,
            failed=self.failed,
            items=self.items,
        )


class ItemPage(msgspec.Struct, array_like=True, frozen=True):
    """Some items, and the last id that was read."""

    last: int | None
    rows: list[ItemRow]


class ExpiredRow(msgspec.Struct, array_like=True, frozen=True):
    """An expired task."""

    no: int
    id: str
    expired_at: int
    task: TaskRow

    def expired(self) -> ExpiredTask:
        return ExpiredTask(
            id=self.id, task=self.task.task(), expired_at=moment(self.expired_at), cursor=cursor_of(self.no)
        )


class HostRow(msgspec.Struct, array_like=True, frozen=True):
    """A host with its limits and the counts of its tasks."""

    name: str
    delay: int
    paused_until: int
    counts: list[int]

    def status(self, now: int) -> HostStatus:
        paused_for = self.paused_until - now
        return HostStatus(
            host=self.name,
            counts=Counts(**_by_name(self.counts)),
            delay=duration(self.delay) if self.delay else None,
            paused_for=duration(paused_for) if paused_for > 0 else None,
            cursor=self.name,
        )


class HostPage(msgspec.Struct, array_like=True, frozen=True):
    """Some hosts, and the last name that was read."""

    last: str | None
    rows: list[HostRow]


def stats(store: Store, run_id: str) -> Stats:
    """Return the counts of a run: in total, by step and by partition."""
    rows = store.read("stats", list[tuple[str, str, list[int]]], run=runs.get_row(store, run_id).no)
    total = [0] * len(COUNTS)
    steps: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    partitions: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for step, partition, counts in rows:
        for sums in (total, steps[step], partitions[partition]):
            for column, count in enumerate(counts):
                sums[column] += count
    return Stats(**_by_name(total), steps=_group_counts(steps), partitions=_group_counts(partitions))


# A page is what was found among the next `size` rows, and the position to continue after: None at the end.


def items(store: Store, after: int, size: int, run_id: str, step: str | None) -> Page[int, StoredItem]:
    """Return a page of items."""
    page = _items(store, "item_read", after, size, run_id, step)
    return page.last, [StoredItem(**row.fields()) for row in page.rows]


def rejects(store: Store, after: int, size: int, run_id: str, step: str | None) -> Page[int, StoredReject]:
    """Return a page of rejects."""
    page = _items(store, "reject_read", after, size, run_id, step)
    return page.last, [StoredReject(**row.fields(), reason=row.reason) for row in page.rows]


def dead_letters(
    store: Store, after: int, size: int, run_id: str, where: DeadFilter
) -> Page[int, DeadLetter]:
    """Return a page of dead letters."""
    numbers = admin.letters_after(store, runs.get_row(store, run_id).no, after, size)
    if not numbers:
        return None, []
    matching = [letter.no for letter in admin.filter_letters(store, numbers, where)]
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(matching))
    return numbers[-1], [row.letter() for row in rows]


def dead_letters_by_id(
    store: Store, after: int, size: int, run_id: str, where: DeadFilter, ids: Sequence[bytes]
) -> Page[int, DeadLetter]:
    """Return the dead letters with these ids, all in one page."""
    numbers = admin.letters_by_id(store, runs.get_row(store, run_id).no, [one.hex() for one in ids])
    behind = sorted(number for number in numbers if number > after)
    matching = [letter.no for letter in admin.filter_letters(store, behind, where)]
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(matching))
    return None, [row.letter() for row in rows]


def store_size(store: Store) -> StoreSize:
    """Return the size of the file, with its free pages."""
    used, free = store.read("store_size", tuple[int, int])
    reusable = f", of which {free / 1e6:,.1f} MB are free for reuse" if free >= 100_000 else ""
    return StoreSize(used, f"the database file{reusable}")


def expired(store: Store, after: int, size: int, run_id: str) -> Page[int, ExpiredTask]:
    """Return a page of expired tasks."""
    run = runs.get_row(store, run_id).no
    rows = store.read("expired_read", list[ExpiredRow], run=run, after=after, limit=size)
    return (rows[-1].no if rows else None), [row.expired() for row in rows]


def hosts(store: Store, after: str, size: int, run_id: str | None) -> Page[str, HostStatus]:
    """Return a page of hosts."""
    run = None if run_id is None else runs.get_row(store, run_id).no
    now = store.now()
    page = store.read("host_read", HostPage, run=run, now=now, after=after, limit=size)
    return page.last, [row.status(now) for row in page.rows]


def workers(store: Store, run_id: str | None) -> Sequence[WorkerStatus]:
    """Return the workers that have sent a heartbeat."""
    run = None if run_id is None else runs.get_row(store, run_id).no
    now = store.now()
    return [row.status(now) for row in store.read("worker_read", list[WorkerRow], run=run)]


def _items(store: Store, query: str, after: int, size: int, run_id: str, step: str | None) -> ItemPage:
    run = runs.get_row(store, run_id).no
    return store.read(query, ItemPage, run=run, step=step, after=after, limit=size, bytes=MAX_PAGE_BYTES)


def _attempt(attempt: int, worker_id: str, text: str, ended_at: int) -> Attempt:
    return Attempt.stored(attempt, worker_id, text, moment(ended_at))


def _by_name(counts: Sequence[int]) -> dict[str, Any]:
    return dict(zip(COUNTS, counts, strict=True))


def _group_counts(groups: dict[str, list[int]]) -> dict[str, Counts]:
    """Return the counts of groups without those that only ever had duplicates."""
    return {name: Counts(**_by_name(counts)) for name, counts in groups.items() if any(counts)}
