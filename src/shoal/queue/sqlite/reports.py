"""Lists that are read page by page, and the size of the store."""

from typing import Any

import msgspec

from shoal.core.model import ExpiredTask, StoredItem, StoredReject
from shoal.queue.contract import StoreSize
from shoal.queue.encoding import moment
from shoal.queue.intake import decode
from shoal.queue.paging import cursor_of
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import Page, Store, TaskRecord

PAGE = 500
MAX_PAGE_BYTES = 8 << 20  # a page ends early after this


class ItemRecord(msgspec.Struct, array_like=True, frozen=True):
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


class ItemPage(msgspec.Struct, array_like=True, frozen=True):
    """Some items, and the last id that was read."""

    last: int | None
    rows: list[ItemRecord]


class ExpiredRow(msgspec.Struct, array_like=True, frozen=True):
    """An expired task."""

    no: int
    id: str
    expired_at: int
    task: TaskRecord

    def expired(self) -> ExpiredTask:
        return ExpiredTask(
            id=self.id, task=self.task.task(), expired_at=moment(self.expired_at), cursor=cursor_of(self.no)
        )


def items(store: Store, after: int, size: int, run_id: str, step: str | None) -> Page[int, StoredItem]:
    """Return a page of items."""
    page = _items(store, "item_read", after, size, run_id, step)
    return page.last, [StoredItem(**row.fields()) for row in page.rows]


def rejects(store: Store, after: int, size: int, run_id: str, step: str | None) -> Page[int, StoredReject]:
    """Return a page of rejects."""
    page = _items(store, "reject_read", after, size, run_id, step)
    return page.last, [StoredReject(**row.fields(), reason=row.reason) for row in page.rows]


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


def _items(store: Store, query: str, after: int, size: int, run_id: str, step: str | None) -> ItemPage:
    run = runs.get_row(store, run_id).no
    return store.read(query, ItemPage, run=run, step=step, after=after, limit=size, bytes=MAX_PAGE_BYTES)
