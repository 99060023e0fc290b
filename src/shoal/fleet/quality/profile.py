"""The statistics of a run's items: of each step and field how much is filled, and with what.

Computed from the stored items when a run has ended: so they are exact, and cost the workers nothing. Items
are taken in batches and read column by column, which keeps most of the work inside Python's own loops.
"""

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any

import msgspec

from shoal.core.model import Counts, StoredItem
from shoal.core.text import shorten
from shoal.core.values import median
from shoal.scrape.settings.expect import Expectation, spellings

BATCH = 1_000  # items
MAX_FIELDS = 100  # of a step, and as many inside objects; items of any size may be stored
MAX_OBJECT = 30  # names in the objects of a field; with more of them they are data, such as ids or dates
MAX_UNCOUNTED = 20  # names that are shown of fields without statistics
MAX_NAME = 100  # characters of a field's name; longer ones are ignored
MAX_DEPTH = 3  # of objects inside items
MAX_DISTINCT = 10_000  # values that are told apart
MAX_KEYS = 1_000_000  # of an expectation `unique`
MAX_VALUES = 50  # that are counted each: more of them are no choice from a few
SHORT = 40  # characters of a text whose values and shapes are counted
MAX_SHAPES = 50
SAMPLE = 100  # values of a batch whose shapes are counted, and of which medians are computed
MAX_SAMPLE = 2_000
MAX_EXAMPLES = 3
MAX_EXAMPLE = 200  # characters of a value in an example
EMPTY = "empty"
NO_COUNTS = Counts()

TYPES: Mapping[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "bool",
    list: "list",
    dict: "object",
}
DIGITS, LETTERS = re.compile(r"\d+"), re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*")


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The range and the middle of numbers, or of the lengths of texts; the median is that of a sample."""

    least: float
    median: float
    most: float


class FieldProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What one field holds in the items of a step."""

    items: int  # that could have it
    filled: int
    types: dict[str, int]
    distinct: int  # values, but objects
    more_distinct: bool = False  # whether there are more than were told apart
    numbers: Spread | None = None
    lengths: Spread | None = None  # of texts
    values: dict[str, int] | None = None  # how often each occurs, of a field with few short values
    rare: int = 0  # texts that `values` has no longer, as few items of a deleted run had them
    shapes: dict[str, int] | None = (
        None  # of a sample of short texts: "£9.9" of £51.77; None if there are many
    )
    examples: list[Any] = []

    @property
    def filled_share(self) -> float:
        """The part of the items in which it holds something."""
        return self.filled / self.items if self.items else 0.0

    def type_share(self, name: str) -> float:
        """The part of the filled values that have this type."""
        return self.types.get(name, 0) / self.filled if self.filled else 0.0


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """How many items break an expectation, and one of them."""

    count: int
    example: Any
    is_cut: bool = False  # whether there are more values than `unique` compares


class StepProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one step, and the tasks that yielded them."""

    items: int = 0
    tasks: int = 0  # that yielded items
    completed: int = 0
    dead: int = 0
    rejected: int = 0
    fields: dict[str, FieldProfile] = {}
    examples: list[Any] = []  # the first items, shortened
    uncounted: list[str] = []  # fields without statistics, as there are too many; of some objects "name.*"
    more_uncounted: int = 0
    violations: dict[str, Violation] = {}  # of expectations about single items, by their text


class StepProfiler:
    """Collects the statistics of the items of one step."""

    def __init__(self, step: str, rules: Iterable[Expectation] = ()) -> None:
        self._checks = [ItemCheck(rule, step) for rule in rules if rule.is_of_items]
        self._fields: dict[str, _Field] = {}
        self._counts = {False: 0, True: 0}  # of fields, by whether they are inside objects
        self._uncounted: dict[str, None] = {}
        self._in_objects: defaultdict[str, set[str]] = defaultdict(set)  # names, by the name of the object
        self._items, self._tasks, self._last_task = 0, 0, ""
        self._examples: list[Any] = []

    def add(self, items: Sequence[StoredItem]) -> None:
        """Add a batch of items."""
        tasks = {item.task_id for item in items}
        self._tasks += len(tasks) - (self._last_task in tasks)
        self._last_task = items[-1].task_id
        rows = [item.data if type(item.data) is dict else {"item": item.data} for item in items]
        self._examples += [_shown(row) for row in rows[: MAX_EXAMPLES - len(self._examples)]]
        self._add_rows("", rows, rows, self._items, MAX_DEPTH)
        for check in self._checks:
            check.add(rows)
        self._items += len(items)

    def _add_rows(self, prefix: str, rows: list[Any], items: list[Any], before: int, depth: int) -> None:
        """Add objects column by column; `items` contain them, and `before` is how many preceded."""
        keys = dict.fromkeys(chain.from_iterable(rows))
        if prefix and self._is_data(prefix, keys):
            return
        objects = []
        for key in keys:
            name = f"{prefix}{key}"
            found = self._fields.get(name)
            if found is None:
                if len(name) > MAX_NAME or self._counts[bool(prefix)] >= MAX_FIELDS:
                    if len(self._uncounted) < MAX_DISTINCT:
                        self._uncounted.setdefault(shorten(name, MAX_NAME))
                    continue
                found = self._fields[name] = _Field(before, prefix)
                self._counts[bool(prefix)] += 1
            groups = found.add([row.get(key) for row in rows], items)
            if (inner := [value for value in groups.get(dict, ()) if value]) and depth:
                objects.append((key, name, found, inner))
        for key, name, found, inner in objects:  # after all fields beside them
            pairs = zip(rows, items, strict=True)
            inside = [item for row, item in pairs if type(value := row.get(key)) is dict and value]
            self._add_rows(f"{name}.", inner, inside, found.types["object"] - len(inner), depth - 1)
        for found in self._fields.values():
            if found.prefix == prefix and found.items < before + len(rows):
                found.skip(before + len(rows) - found.items, items)

    def _is_data(self, prefix: str, keys: Iterable[str]) -> bool:
        """Return whether the names in objects are dates, ids or the like: then they have no statistics."""
        name = f"{prefix}*"
        if name in self._uncounted:
            return True
        known = self._in_objects[prefix]
        known.update(keys)
        if len(known) <= MAX_OBJECT and all(LETTERS.search(key) for key in known):
            return False
        self._uncounted[name] = None
        for field in [field for field, one in self._fields.items() if one.prefix.startswith(prefix)]:
            del self._fields[field]
            self._counts[True] -= 1
        for inner in [inner for inner in self._in_objects if inner.startswith(prefix)]:
            del self._in_objects[inner]
        return True

    def profile(self, counts: Counts = NO_COUNTS) -> StepProfile:
        """Return the statistics so far, with the counts of the step."""
        return StepProfile(
            items=self._items,
            tasks=self._tasks,
            completed=counts.completed,
            dead=counts.dead,
            rejected=counts.rejected,
            fields={name: one.profile() for name, one in self._fields.items()},
            examples=self._examples,
            uncounted=list(self._uncounted)[:MAX_UNCOUNTED],
            more_uncounted=max(0, len(self._uncounted) - MAX_UNCOUNTED),
            violations={
                check.rule.text: check.violation() for check in self._checks if check.count or check.is_cut
            },
        )

    def example(self, field: str, kind: str) -> Any:
        """Return the first item whose field has this type or is empty; None if there is none."""
        found = self._fields.get(field)
        item = found.firsts.get(kind) if found else None
        return None if item is None else _shown(item)


class _Field:
    """Collects the statistics of one field."""

    def __init__(self, before: int, prefix: str) -> None:
        self.items, self.filled, self.prefix = before, 0, prefix
        self.types: Counter[str] = Counter()
        self.firsts: dict[str, Any] = {}  # the first item by type of this field
        self._distinct: set[int] = set()
        self._numbers, self._lengths = _NumberSample(), _NumberSample()
        self._values: Counter[str] | None = Counter()
        self._shapes: Counter[str] | None = Counter()
        self._examples: list[Any] = []

    def skip(self, count: int, items: Sequence[Any]) -> None:
        """Count items that do not have the field at all."""
        self.items += count
        self.firsts.setdefault(EMPTY, items[0])

    def add(self, column: list[Any], items: Sequence[Any]) -> Mapping[type, list[Any]]:
        """Add the values of a batch; return them by type."""
        groups: defaultdict[type, list[Any]] = defaultdict(list)
        for value in column:
            groups[type(value)].append(value)
        self.items += len(column)
        for kind, values in groups.items():
            filled = _filled(kind, values)
            name = TYPES.get(kind, "text")
            if filled:
                self._count(kind, name, filled)
            self._note_firsts(column, items, kind, name, all_filled=len(filled) == len(values))
        return groups

    def _count(self, kind: type, name: str, filled: list[Any]) -> None:
        self.filled += len(filled)
        self.types[name] += len(filled)
        if len(self._examples) < MAX_EXAMPLES:
            found = [_cut(value) for value in filled[:SAMPLE]]
            fresh = [value for place, value in enumerate(found) if value not in found[:place]]
            missing = [value for value in fresh if value not in self._examples]
            self._examples += missing[: MAX_EXAMPLES - len(self._examples)]
        if len(self._distinct) < MAX_DISTINCT and kind is not dict:  # their fields are counted
            self._distinct.update(map(_hash if kind is list else hash, filled))
        if name == "number":
            self._numbers.add(filled)
        elif kind is str:
            self._count_texts(filled)
        elif kind is bool and self._values is not None:
            self._values.update(map(str, filled))  # what is sold out may be the usual value of all items

    def _count_texts(self, texts: list[str]) -> None:
        self._lengths.add(list(map(len, texts)))
        if self._values is not None:
            self._values.update(texts)
            if len(self._values) > MAX_VALUES or any(len(text) > SHORT for text in self._values):
                self._values = None
        if self._shapes is not None:
            self._shapes.update(map(shape_of, texts[:: max(1, len(texts) // SAMPLE)]))
            if len(self._shapes) > MAX_SHAPES:
                self._shapes = None

    def _note_firsts(
        self, column: list[Any], items: Sequence[Any], kind: type, name: str, *, all_filled: bool
    ) -> None:
        if name not in self.firsts or (EMPTY not in self.firsts and not all_filled):
            for value, item in zip(column, items, strict=True):
                if type(value) is kind:
                    self.firsts.setdefault(name if _filled(kind, [value]) else EMPTY, item)
                    if all_filled or (name in self.firsts and EMPTY in self.firsts):
                        break

    def profile(self) -> FieldProfile:
        """Return the statistics."""
        return FieldProfile(
            items=self.items,
            filled=self.filled,
            types=dict(self.types.most_common()),
            distinct=min(len(self._distinct), MAX_DISTINCT),
            more_distinct=len(self._distinct) >= MAX_DISTINCT,
            numbers=self._numbers.spread(),
            lengths=self._lengths.spread(),
            values=dict(self._values.most_common()) if self._values else None,
            shapes=dict(self._shapes.most_common()) if self._shapes else None,
            examples=self._examples,
        )


class _NumberSample:
    """The range of numbers, and an even sample of them."""

    def __init__(self) -> None:
        self._kept: list[float] = []
        self._stride = 1
        self._least, self._most = float("inf"), float("-inf")

    def add(self, values: Sequence[float]) -> None:
        """Add numbers; of many, every n-th is kept."""
        self._least, self._most = min(self._least, min(values)), max(self._most, max(values))
        self._kept += values[:: self._stride]
        if len(self._kept) > MAX_SAMPLE:
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def spread(self) -> Spread | None:
        """Return the range and the median; None without numbers, or if some are too large."""
        if not self._kept:
            return None
        try:
            found = Spread(least=float(self._least), median=median(self._kept), most=float(self._most))
        except OverflowError:  # whole numbers of hundreds of digits
            return None
        return found if isfinite(found.median) else None  # JSON has no infinity


class ItemCheck:
    """Counts the items that break an expectation about single items."""

    def __init__(self, rule: Expectation, step: str) -> None:
        self.rule, self.count, self.is_cut = rule, 0, False
        self._names = [spellings(name, step) for name in rule.names]
        self._example: Any = None
        self._keys: set[int] = set()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Check a batch of items."""
        for row in rows:
            values = [_value(row, names) for names in self._names]
            if all(value is None for value in values):
                continue
            if self._is_known(values) if self.rule.kind == "unique" else not self.rule.admits(values[0]):
                self.count += 1
                self._example = self._example or _shown(row)

    def _is_known(self, values: list[Any]) -> bool:
        key = _hash(values)
        if key in self._keys:
            return True
        if len(self._keys) < MAX_KEYS:
            self._keys.add(key)
        else:
            self.is_cut = True
        return False

    def violation(self) -> Violation:
        """Return what was found."""
        return Violation(count=self.count, example=self._example, is_cut=self.is_cut)


async def profile_items(
    items: AsyncIterator[StoredItem], rules: Sequence[Expectation] = ()
) -> dict[str, StepProfiler]:
    """Read all items of a run; return the statistics by step."""
    found: dict[str, StepProfiler] = {}
    batches: defaultdict[str, list[StoredItem]] = defaultdict(list)

    def flush(step: str) -> None:
        if step not in found:
            found[step] = StepProfiler(step, rules)
        found[step].add(batches.pop(step))

    async for item in items:
        batch = batches[item.step]
        batch.append(item)
        if len(batch) >= BATCH:
            flush(item.step)
    for step in list(batches):
        flush(step)
    return found


def shape_of(text: str) -> str:
    """Return how a short text is written: 9 for digits, a for words. Longer ones have no shape."""
    return LETTERS.sub("a", DIGITS.sub("9", text)) if len(text) <= SHORT else "long text"


def _filled(kind: type, values: list[Any]) -> list[Any]:
    """Return the values of one type that hold something; 0 and false are something."""
    if kind is str:
        return [value for value in values if value and not value.isspace()]
    if kind is type(None):
        return []
    return [value for value in values if value] if kind in (list, dict) else values


def _value(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return a field of an item, or of an object inside it, by any of these names; None if it is empty."""
    for name in names:
        value: Any = row
        for key in [name] if name in row else name.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if _filled(type(value), [value]):
            return value
    return None


def _hash(value: Any) -> int:
    return hash(msgspec.json.encode(value))


def _cut(value: Any) -> Any:
    """Return a value for an example, shortened."""
    if isinstance(value, str):
        return shorten(value, MAX_EXAMPLE)
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= MAX_EXAMPLE else shorten(text, MAX_EXAMPLE)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as an example."""
    return {name: _cut(row[name]) for name in list(row)[:MAX_FIELDS] if len(name) <= MAX_NAME}
