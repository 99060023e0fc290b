"""Items as rows of a table."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from shoal.core.errors import InvalidItem
from shoal.core.model import StoredItem

MAX_COLUMNS = 10_000
VALUE = "value"  # column of an item that is not a mapping

Row = Mapping[str, Any]


def row(item: StoredItem, *, envelope: bool = False) -> Row:
    """Return an item as a mapping of names to values."""
    data = item.data if isinstance(item.data, Mapping) else {VALUE: item.data}
    return {**origin(item), **data} if envelope else data


def origin(item: StoredItem) -> dict[str, Any]:
    """Return the origin of an item as columns: where and when it was found."""
    return {
        "_url": item.url,
        "_step": item.step,
        "_task_id": item.task_id,
        "_stored_at": item.stored_at,
    }


def check_width(columns: Collection[str], max_columns: int = MAX_COLUMNS) -> None:
    """Raise InvalidItem if there are more columns than allowed."""
    if len(columns) > max_columns:
        raise InvalidItem(
            None, f"the items have more than {max_columns:,} columns. Export them to a .jsonl file"
        )


def mismatch_error(item: StoredItem, what: str) -> InvalidItem:
    """Return the error for an item that does not match the surveyed columns."""
    location = item.url or item.task_id
    reason = f"item {item.id} of {location} has {what}, unlike the items before it. Run the export again"
    return InvalidItem(item.data, reason)


def describe_columns(names: Iterable[str]) -> str:
    """Name the first column, and count the others, for a message."""
    first, *others = sorted(names)
    return f"the column {first!r}" + (f" and {len(others)} more" if others else "")


def to_json(value: Any) -> str:
    """Return a list or mapping as JSON text."""
    return msgspec.json.encode(value).decode()
