"""What differs between the items that a page yields and those that it yielded before."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from shoal.queue.intake import decode, encode_item

MAX_ITEMS = 50  # of a page that are compared field by field
MAX_DIFFERENCES = 200  # of a page that are stored
MAX_VALUE = 1_000  # characters of a value that are stored

_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


class FieldDifference(msgspec.Struct, frozen=True, array_like=True):
    """A field with another value; without a field, an item that was added or removed."""

    item: int  # its position on the page: now, or before if it was removed; from 1
    field: str | None = None
    old: Any = None
    new: Any = None


class PageDifferences(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of a changed page, and how many differences are not."""

    stored: list[FieldDifference]
    more: int = 0


def canonical_json(item: Any) -> bytes:
    """Return an item as JSON to compare, independent of the order of its fields; raises InvalidItem."""
    return _encode_sorted(decode(encode_item(item)))


def compare_items(before: Iterable[Any], now: Iterable[Any]) -> PageDifferences:
    """Return what differs; an item is compared with the one that shares the most values with it."""
    was, is_now = _plain(before), _plain(now)
    old, new = _without(was, is_now), _without(is_now, was)
    are_alone = len(old) == len(new) == 1
    found: list[FieldDifference] = []
    for number, item in old[:MAX_ITEMS]:
        others = new[:MAX_ITEMS]
        match = max(others, key=lambda other: _shared(item, other[1]), default=None)
        if match and (are_alone or _shared(item, match[1])):
            new.remove(match)
            found += _fields(match[0], item, match[1])
        else:
            found.append(FieldDifference(number, old=_cut(item)))
    found += [FieldDifference(number, new=_cut(item)) for number, item in new[:MAX_ITEMS]]
    beyond = max(len(old) - MAX_ITEMS, 0) + max(len(new) - MAX_ITEMS, 0)
    return PageDifferences(found[:MAX_DIFFERENCES], beyond + max(len(found) - MAX_DIFFERENCES, 0))


def _plain(items: Iterable[Any]) -> list[tuple[bytes, Any]]:
    """Return each item as JSON to compare, and as it is stored."""
    return [(canonical_json(item), decode(encode_item(item))) for item in items]


def _without(
    items: Sequence[tuple[bytes, Any]], others: Iterable[tuple[bytes, Any]]
) -> list[tuple[int, Any]]:
    """Return the items that are not among the others, each with its position."""
    left = Counter(key for key, _ in others)
    found: list[tuple[int, Any]] = []
    for number, (key, item) in enumerate(items, 1):
        if left[key]:
            left[key] -= 1
        else:
            found.append((number, item))
    return found


def _shared(old: Any, new: Any) -> int:
    """Return how many fields have the same value."""
    mine, other = _mapping(old), _mapping(new)
    return sum(name in other and other[name] == value for name, value in mine.items())


def _fields(number: int, old: Any, new: Any) -> Iterator[FieldDifference]:
    was, is_now = _mapping(old), _mapping(new)
    for name in dict.fromkeys((*was, *is_now)):
        if name not in was or name not in is_now or was[name] != is_now[name]:
            yield FieldDifference(number, name, _cut(was.get(name)), _cut(is_now.get(name)))


def _mapping(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, dict) else {"item": item}


def _cut(value: Any) -> Any:
    """Return a value; the beginning of a long one, with its length."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}… ({len(text):,} characters)"
