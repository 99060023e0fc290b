"""Row keys: the fields that identify the row of an item."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.kinds import as_text
from shoal.export.table import Row, origin, row

ITEM_ID = "_item_id"
ITEM_KEY = ("_task_id", ITEM_ID)  # the default: every item is its own row
MAX_KEY_BYTES = 2_000  # a PostgreSQL index allows 2,704
_SHORT = 50
_ENVELOPE = ("_url", "_step", "_task_id", "_stored_at")


class KeyedRows:
    """Turns items into rows, and checks that they have a key.

    The origin of an item is never taken from its data: a page could choose the row that it replaces.
    """

    def __init__(self, key: Sequence[str], columns: Sequence[str] | None, *, envelope: bool) -> None:
        self.key = tuple(dict.fromkeys(key)) or ITEM_KEY
        self._chosen = None if columns is None else {*columns, *self.key}
        self._origin_names = {*self.key, *_ENVELOPE} if envelope else set(self.key)
        self._needs_origin = not self._origin_names.isdisjoint((*_ENVELOPE, ITEM_ID))
        self._fields: dict[str, None] = {}

    def row(self, item: StoredItem) -> Row | None:
        """Return an item as a mapping of names to values; None if it lacks the key."""
        found = row(item)
        if self._needs_origin:
            own = {name: value for name, value in _origin(item).items() if name in self._origin_names}
            found = {**own, **found, **own}
        if not self._has_key(found):
            self._remember_fields(found)
            return None
        return found if self._chosen is None else _only(found, self._chosen)

    def missing_key_error(self) -> InvalidSetting:
        """Return the error for a key that no item has."""
        missing = next((name for name in self.key if name not in self._fields), self.key[0])
        close = get_close_matches(missing, self._fields, n=1)
        known = ", ".join(list(self._fields)[:10])
        hint = f"Did you mean {close[0]!r}?" if close else f"Available fields: {known}"
        return InvalidSetting("--key", f"no item has the field {missing!r}. {hint}")

    def _has_key(self, found: Row) -> bool:
        values = [found.get(name) for name in self.key]
        return None not in values and sum(map(_size, values)) <= MAX_KEY_BYTES

    def _remember_fields(self, found: Row) -> None:
        if len(self._fields) < 1_000:
            self._fields.update(dict.fromkeys(found))


def _origin(item: StoredItem) -> dict[str, Any]:
    return {**origin(item), ITEM_ID: item.id}


def _only(found: Row, chosen: set[str]) -> Row:
    return {name: value for name, value in found.items() if name in chosen}


def _size(value: Any) -> int:
    """Return the size of a value in bytes, or a cheap upper bound for a short text."""
    if isinstance(value, str) and len(value) < _SHORT:
        return 4 * len(value)
    return len(as_text(value).encode(errors="replace"))
