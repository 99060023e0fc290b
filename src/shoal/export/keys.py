"""Which row of a table an item is: the fields that make up its key."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.kinds import as_text
from shoal.export.table import Row, origin, row

ITEM_ID = "_item_id"
EACH_ITEM = ("_task_id", ITEM_ID)  # without a key of the user's, every item is a row of its own
LONGEST = 2_000  # bytes; an index of PostgreSQL takes 2,704
_SHORT = 50
_ENVELOPE = ("_url", "_step", "_task_id", "_stored_at")


class KeyedRows:
    """Makes rows of items, and knows which of them have a key.

    Where an item was found is never taken from its data: a page could name the row that it wants to replace.
    """

    def __init__(self, key: Sequence[str], columns: Sequence[str] | None, *, envelope: bool) -> None:
        self.key = tuple(dict.fromkeys(key)) or EACH_ITEM
        self._chosen = None if columns is None else {*columns, *self.key}
        self._own = {*self.key, *_ENVELOPE} if envelope else set(self.key)
        self._has_own = not self._own.isdisjoint((*_ENVELOPE, ITEM_ID))
        self._fields: dict[str, None] = {}

    def row(self, item: StoredItem) -> Row | None:
        """Return an item as names and values; None when it lacks its key."""
        found = row(item)
        if self._has_own:
            own = {name: value for name, value in _origin(item).items() if name in self._own}
            found = {**own, **found, **own}
        if not self._has_key(found):
            self._note(found)
            return None
        return found if self._chosen is None else _only(found, self._chosen)

    def unheard_of(self) -> InvalidSetting:
        """Return the error for a key that no item has."""
        missing = next((name for name in self.key if name not in self._fields), self.key[0])
        close = get_close_matches(missing, self._fields, n=1)
        known = ", ".join(list(self._fields)[:10])
        hint = f"Did you mean {close[0]!r}?" if close else f"Their fields are: {known}"
        return InvalidSetting("--key", f"{missing!r} is in none of the items. {hint}")

    def _has_key(self, found: Row) -> bool:
        values = [found.get(name) for name in self.key]
        return None not in values and sum(map(_size, values)) <= LONGEST

    def _note(self, found: Row) -> None:
        if len(self._fields) < 1_000:
            self._fields.update(dict.fromkeys(found))


def _origin(item: StoredItem) -> dict[str, Any]:
    return {**origin(item), ITEM_ID: item.id}


def _only(found: Row, chosen: set[str]) -> Row:
    return {name: value for name, value in found.items() if name in chosen}


def _size(value: Any) -> int:
    """Return the bytes of a value, or more where that is quicker and does not matter."""
    if isinstance(value, str) and len(value) < _SHORT:
        return 4 * len(value)
    return len(as_text(value).encode(errors="replace"))
