"""Items as the rows of a table."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from shoal.core.errors import InvalidItem
from shoal.core.model import StoredItem

MOST_COLUMNS = 10_000
VALUE = "value"  # the column of an item that is no mapping

Row = Mapping[str, Any]


def row(item: StoredItem, *, envelope: bool = False) -> Row:
    """Return an item as names and values."""
    data = item.data if isinstance(item.data, Mapping) else {VALUE: item.data}
    return {**origin(item), **data} if envelope else data


def origin(item: StoredItem) -> dict[str, Any]:
    """Return where and when an item was found, as columns."""
    return {
        "_url": item.url,
        "_step": item.step,
        "_task_id": item.task_id,
        "_stored_at": item.stored_at,
    }


def check_width(columns: Collection[str], most: int = MOST_COLUMNS) -> None:
    """Raise InvalidItem when there are more columns than a table can have."""
    if len(columns) > most:
        raise InvalidItem(None, f"the items have more than {most:,} columns. Export them to a .jsonl file")


def misfit(item: StoredItem, what: str) -> InvalidItem:
    """Return the error for an item that does not fit what was seen before."""
    place = item.url or item.task_id
    reason = f"item {item.id} of {place} has {what}, unlike those before. Run the export again"
    return InvalidItem(item.data, reason)


def named(names: Iterable[str]) -> str:
    """Return the first of some names as words of a message."""
    first, *others = sorted(names)
    return f"the column {first!r}" + (f" and {len(others)} more" if others else "")


def nested(value: Any) -> str:
    """Return a list or mapping as JSON text."""
    return msgspec.json.encode(value).decode()
