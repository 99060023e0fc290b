"""Items to export, and a stream of them."""

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from shoal.core.model import StoredItem

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


def item(data: Any, number: int = 1, step: str = "product") -> StoredItem:
    """Return an item with this data."""
    return StoredItem(
        id=number,
        task_id=f"task-{number}",
        url=f"https://shop.example/{number}",
        step=step,
        data=data,
        stored_at=NOON,
    )


def items(*data: Any) -> list[StoredItem]:
    """Return items with these data and increasing ids."""
    return [item(one, number) for number, one in enumerate(data, 1)]


def source(some: Iterable[StoredItem]) -> Callable[[], AsyncIterator[StoredItem]]:
    """Return the `items` argument of `export`: each call starts a new stream."""
    kept = list(some)

    async def stream() -> AsyncIterator[StoredItem]:
        for one in kept:
            yield one

    return stream
