"""What is different in a run from the last good ones: pure, and on by default for every scraper.

A difference must be larger than any between the good runs themselves, and than chance makes it in so few
items. Each limit below is where ordinary nights stay silent and a broken page does not: see
docs/decisions/0045-data-quality.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from msgspec.structs import replace

from shoal.core.run_outcome import Finding
from shoal.core.text import printable, shorten
from shoal.core.values import counted, median
from shoal.fleet.quality.profile import DIGITS, EMPTY, FieldProfile, StepProfile, shape_of
from shoal.fleet.quality.records import Baseline, RunProfile

FEWER, MORE = 0.3, 0.5  # of the median number of items: beyond it, a run has too few or too many
SHARE = 0.1  # by which a share of items or tasks may differ
TASKS_SHARE = 0.2  # by which the share of pages without items may rise
SPREAD = 1.5  # times the largest difference between good runs
SIGMAS = 4  # of the difference of two random samples
VOLUME_SIGMAS = 3  # of a random number of items, as of the news of a day
MIN_ITEMS = 10  # fewer say nothing about a share
MIN_SAMPLE = 30  # fewer say nothing about a median
NEW_VALUES, NEW_SHAPES = 0.3, 0.5  # share of items
SHIFT = 0.5  # by which the share of one value may rise
KNOWN_BEFORE = 0.1  # share of new values that good runs have among themselves, at most
FEW_KINDS = 20  # values or shapes
FACTOR, LENGTH_FACTOR = 2.0, 3.0  # by which a median may differ
STEADY = 1.5  # the largest median of good runs by the smallest one, at most
FEWER_DISTINCT = 0.5
TASK_SHARES = {
    "dead": "tasks failed",
    "blocked": "tasks were rejected by their host",
    "rejects": "items were rejected",
}
MEDIANS = (("numbers", "the median", FACTOR), ("lengths", "the usual length", LENGTH_FACTOR))

FindExample = Callable[[str, str, str], Any]  # by step, field, and type or EMPTY: an item of the run


def differences(
    run: RunProfile,
    baseline: Baseline,
    example: FindExample,
    *,
    strict: bool = False,
    has_volume: bool = True,
) -> list[Finding]:
    """Return how a run differs from the good runs before it; none without such runs."""
    found = list(_differences(run, baseline, example, strict, has_volume))
    if baseline.before and found:
        # One run was accepted, which is too few to tell what differs anyway.
        usual = _differences(run, baseline.before, example, strict, has_volume)
        known = {(one.kind, one.step, one.field) for one in usual}
        found = [one for one in found if (one.kind, one.step, one.field) in known]
    return found


def _differences(
    run: RunProfile, baseline: Baseline, example: FindExample, strict: bool, has_volume: bool
) -> Iterator[Finding]:
    if baseline.last:
        yield from _of_tasks(run, baseline.last, strict)
    steps = dict.fromkeys(name for other in (*baseline.last, *baseline.volumes) for name in other.steps)
    for step in steps:
        about = _Subject(run, step, baseline, example, strict)
        if has_volume:
            yield from _volume(run, baseline, about)
        if baseline.last:
            yield from _of_step([other.steps.get(step, StepProfile()) for other in baseline.last], about)


def _of_tasks(run: RunProfile, baseline: Sequence[RunProfile], strict: bool) -> Iterator[Finding]:
    for what, words in TASK_SHARES.items():
        now, before = run.share(what), [other.share(what) for other in baseline]
        size = run.items + run.rejected if what == "rejects" else run.completed + run.dead
        if _has_risen(now, before, size, SHARE):
            last = baseline[0].run_id
            usual = f"usually {_percent(median(before))} (compared with run {last})"
            text = f"{_percent(now)} of the {words}, {usual}"
            yield Finding(kind=what, text=text, strict=strict, since=last)


class _Subject:
    """A step of the run, or a field of it, that is compared with the last good run."""

    def __init__(
        self, run: RunProfile, step: str, baseline: Baseline, example: FindExample, strict: bool
    ) -> None:
        self.now = run.steps.get(step, StepProfile())
        self.step, self.baseline = step, baseline
        self._run, self._example, self._strict = run, example, strict
        self.field: str | None = None

    @property
    def last(self) -> RunProfile:
        """The newest good run."""
        return self.baseline.fields[0]

    def finding(self, kind: str, text: str, last: RunProfile, *, example: str = "") -> Finding:
        """Return a finding; `example` is the type of the field, or EMPTY, that an item of the run shows."""
        step, field = self.step, self.field
        has_others = sum(bool(one.items) for one in last.steps.values()) > 1
        name = f"{step}.{field}" if field and has_others else field or step
        found = Finding(
            kind=kind,
            text=f"{printable(name)}: {text} (compared with run {last.run_id})",
            strict=self._strict,
            step=step,
            field=field,
            since=last.run_id,
        )
        if not field:
            return found  # no item shows how many there are
        shown = self._example(step, field, example) if example else None
        return replace(
            found,
            then=next(iter(last.steps.get(step, StepProfile()).examples), None),
            now=shown if shown is not None else next(iter(self.now.examples), None),
        )

    def field_runs(self, baseline: Baseline) -> list[RunProfile]:
        """Return the good runs whose items have the field, the oldest first."""
        runs = reversed(baseline.fields)
        return [run for run in runs if self.field in run.steps.get(self.step, StepProfile()).fields]

    def changes_by_itself(self, read: Callable[[FieldProfile], Mapping[str, int]]) -> bool:
        """Return whether what `read` returns changed twice between good runs, or has been seen once only."""
        whole = self.baseline.before or self.baseline
        seen, changes = Counter[str](), 0
        found = [read(run.steps[self.step].fields[self.field or ""]) for run in self.field_runs(whole)]
        for kinds in filter(None, found):
            changes += bool(seen) and _unknown_share(kinds, seen) > KNOWN_BEFORE
            seen.update(kinds)
        return changes > 1 or (len(found) < 2 and not whole.is_chosen)


def _of_step(before: Sequence[StepProfile], about: _Subject) -> Iterator[Finding]:
    now = about.now
    if not now.items:
        return
    yield from _pages_without_items(now, before, about)
    broken: list[str] = []
    for field in dict.fromkeys(name for one in before for name in one.fields):
        if any(field.startswith(f"{name}.") for name in broken):
            continue  # what is inside an object that is gone
        if field in now.uncounted or any(
            field.startswith(name[:-1]) for name in now.uncounted if name[-2:] == ".*"
        ):
            continue
        about.field = field
        compared = [one.fields[field] for one in before if field in one.fields]
        absent = FieldProfile(items=now.items, filled=0, types={}, distinct=0)
        if findings := list(_of_field(now.fields.get(field, absent), compared, len(before), about)):
            broken.append(field)
            yield from findings


def _volume(run: RunProfile, baseline: Baseline, about: _Subject) -> Iterator[Finding]:
    same = baseline.with_limit(run.cut)
    if not same and run.cut:
        return  # it ended at a limit, or by hand
    # A site that always reached a limit has at least so many items.
    same, is_least = same or baseline.volumes, not same
    usual = median(_items_of(one, about.step) for one in same) if same else 0
    if not usual:
        return
    spread = SPREAD * max(abs(_items_of(one, about.step) - usual) for one in same)
    chance, items = VOLUME_SIGMAS * sqrt(usual), about.now.items
    is_less = usual - items > max(FEWER * usual, spread, chance)
    if is_less or (items - usual > max(MORE * usual, spread, chance) and not is_least):
        change = f"{abs(items - usual) / usual:.0%} {'fewer' if is_less else 'more'}"
        yield about.finding("volume", f"{items:,} items, {change} than the usual {usual:,.0f}", same[0])


def _items_of(run: RunProfile, step: str) -> int:
    return run.steps.get(step, StepProfile()).items


def _pages_without_items(
    now: StepProfile, before: Sequence[StepProfile], about: _Subject
) -> Iterator[Finding]:
    shares = [_without_items(one) for one in before if one.completed]
    if shares and _has_risen(_without_items(now), shares, now.completed, TASKS_SHARE):
        text = f"{_percent(_without_items(now))} of the pages had no item, usually {_percent(median(shares))}"
        yield about.finding("without items", text, about.last)


def _of_field(
    now: FieldProfile, before: Sequence[FieldProfile], runs: int, about: _Subject
) -> Iterator[Finding]:
    filled = [one.filled_share for one in before] + [0.0] * (runs - len(before))
    usual, share = median(filled), now.filled_share
    vanished = not now.filled and min(filled) > 0 and usual * now.items >= MIN_ITEMS
    if vanished or _has_risen(1 - share, [1 - one for one in filled], now.items, SHARE):
        yield about.finding(
            "filled",
            f"filled in {_percent(share)} of the items, usually {_percent(usual)}",
            about.last,
            example=EMPTY,
        )
        if not now.filled:
            return
    if now.filled < MIN_ITEMS or len(before) < runs or not all(one.filled for one in before):
        return
    changed = list(_type(now, before, about))
    yield from changed
    if not changed:
        yield from _new_kinds("values", "new values", NEW_VALUES, now, before, about)
        yield from _new_kinds("shapes", "a new format", NEW_SHAPES, now, before, about)
        yield from _medians(now, before, about)
        yield from _fewer_distinct(now, before, about)


def _type(now: FieldProfile, before: Sequence[FieldProfile], about: _Subject) -> Iterator[Finding]:
    names = {*now.types, *(name for one in before for name in one.types)}
    usual = {name: median(one.type_share(name) for one in before) for name in names}
    grown = max(names, key=lambda name: now.type_share(name) - usual[name])
    if _has_risen(now.type_share(grown), [one.type_share(grown) for one in before], now.filled, SHARE):
        most = max(usual, key=lambda name: usual[name])
        text = f"{grown} in {_percent(now.type_share(grown))} of the items, usually {most}"
        yield about.finding("type", text, about.last, example=grown)


def _new_kinds(
    name: str, words: str, limit: float, now: FieldProfile, before: Sequence[FieldProfile], about: _Subject
) -> Iterator[Finding]:
    """Find values, or shapes of them, that no good run had, in a field which has few kinds of them."""
    if not all(_few_kinds(one, name) for one in before):
        return
    known, last = Counter[str](), None
    for run in about.field_runs(about.baseline):
        kinds = _few_kinds(run.steps[about.step].fields[about.field or ""], name)
        if kinds and (not known or _unknown_share(kinds, known) <= limit):
            known.update(kinds)
            last = run
    if last is None or about.changes_by_itself(lambda one: _few_kinds(one, name)):
        return
    current = _kinds(now, name)
    if current is None:
        text = f"many different {name}, usually {len(known)}"
        yield about.finding(f"many {name}", text, last, example="text")
    elif (share := _unknown_share(current, known)) > limit + (_forgotten(before) if name == "values" else 0):
        new = next(kind for kind in current if kind not in known)
        old, usually = known.most_common(1)[0][0], "usually"
        if name == "shapes":
            new, old, usually = _value_of_shape(new, now), _value_of_shape(old, *before), "usually like"
        text = f"{words} in {_percent(share)} of the items, such as {_quoted(new)}; {usually} {_quoted(old)}"
        yield about.finding(name, text, last)
    elif name == "values":
        yield from _shifted(current, [_few_kinds(one, name) for one in before], about)


def _value_of_shape(shape: str, *fields: FieldProfile) -> str:
    """Return an example with this shape, which says more than the shape does."""
    texts = (one for field in fields for one in field.examples if isinstance(one, str))
    return next((text for text in texts if shape_of(text) == shape), shape)


def _shifted(
    now: Mapping[str, int], before: Sequence[Mapping[str, int]], about: _Subject
) -> Iterator[Finding]:
    """Find one of the usual values that nearly all items have now, such as what a shop shows by default."""
    value = max(now, key=lambda kind: now[kind])
    shares = [one.get(value, 0) / sum(one.values()) for one in before]
    share, size = now[value] / sum(now.values()), sum(now.values())
    if _has_risen(share, shares, size, SHIFT):
        text = f"{_quoted(value)} in {_percent(share)} of the items, usually {_percent(median(shares))}"
        yield about.finding("values", text, about.last)


def _kinds(field: FieldProfile, name: str) -> Mapping[str, int] | None:
    """Return the values of a field but for numbers in them, as "Week 9" of Week 47; or its shapes."""
    if name == "shapes" or not field.values:
        return field.shapes if name == "shapes" else field.values
    found = Counter[str]()
    for value, count in field.values.items():
        found[DIGITS.sub("9", value)] += count
    return found


def _few_kinds(field: FieldProfile, name: str) -> Mapping[str, int]:
    is_few = 0 < len(getattr(field, name) or ()) <= FEW_KINDS
    return (_kinds(field, name) if is_few else None) or {}


def _forgotten(before: Sequence[FieldProfile]) -> float:
    """Return the share of texts that each earlier run may have had: deleted runs keep no rare ones."""
    return min(one.rare / (one.rare + sum((one.values or {}).values()) or 1) for one in before)


def _unknown_share(kinds: Mapping[str, int], known: Mapping[str, int] | set[str]) -> float:
    return sum(count for kind, count in kinds.items() if kind not in known) / sum(kinds.values())


def _medians(now: FieldProfile, before: Sequence[FieldProfile], about: _Subject) -> Iterator[Finding]:
    for name, words, limit in MEDIANS:
        spread, spreads = getattr(now, name), [getattr(one, name) for one in before]
        if spread is None or not all(spreads) or now.filled < MIN_SAMPLE:
            continue
        usual, middle = [one.median for one in spreads], spread.median
        if min(usual) <= 0 or max(usual) > STEADY * min(usual):
            continue
        expected = median(usual)
        if not expected / limit <= middle <= expected * limit:
            yield about.finding(name, f"{words} is {middle:,.6g}, usually {expected:,.6g}", about.last)


def _fewer_distinct(now: FieldProfile, before: Sequence[FieldProfile], about: _Subject) -> Iterator[Finding]:
    """Find a field that repeats: a block page has one title, a page shown again its own items."""
    if now.more_distinct:
        return
    expected = [one.distinct * min(1.0, now.filled / one.filled) for one in before if one.filled]
    if expected and min(expected) >= MIN_SAMPLE and now.distinct < FEWER_DISTINCT * min(expected):
        values = counted(now.distinct, "different value")
        text = f"{values} in {now.filled:,} items, usually {median(expected):,.0f}"
        yield about.finding("distinct", text, about.last)


def _has_risen(now: float, before: Sequence[float], size: int, least: float) -> bool:
    """Return whether a share is larger than the good runs explain, or chance in this many cases."""
    usual = median(before)
    spread = SPREAD * max(abs(one - usual) for one in before)
    expected = (usual * size + 1) / (size + 2)  # never 0: what has not happened yet may happen
    chance = SIGMAS * sqrt(2 * expected * (1 - expected) / size) if size else 1.0
    return size >= MIN_ITEMS and now - usual > max(least, spread, chance)


def _without_items(step: StepProfile) -> float:
    return max(0, step.completed - step.tasks) / step.completed if step.completed else 0.0


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) or 0.005 <= share <= 0.995 else f"{share:.1%}"


def _quoted(text: str) -> str:
    return repr(printable(shorten(text, 40)))
