"""What is different in a run from the last good ones: pure, and on by default for every scraper.

A difference must be larger than any between the good runs themselves, and than chance makes it in so few
items. Each limit below is where ordinary nights stay silent and a broken page does not: see
docs/decisions/0045-data-quality.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from shoal.core.run_outcome import Finding
from shoal.core.text import printable, shorten
from shoal.core.values import median
from shoal.fleet.quality.profile import EMPTY, FieldProfile, StepProfile
from shoal.fleet.quality.records import RunProfile, with_same_volume

FEWER, MORE = 0.3, 0.5  # of the median number of items: beyond it, a run has too few or too many
SHARE = 0.1  # by which a share of items or tasks may differ
TASKS_SHARE = 0.2  # by which the share of pages without items may rise
SPREAD = 1.5  # times the largest difference between good runs
SIGMAS = 4  # of the difference of two random samples
VOLUME_SIGMAS = 3  # of a random number of items, as of the news of a day
MIN_ITEMS = 10  # fewer say nothing about a share
MIN_SAMPLE = 30  # fewer say nothing about a median
NEW_VALUES, NEW_SHAPES = 0.3, 0.5  # share of items
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
    baseline: Sequence[RunProfile],
    example: FindExample,
    *,
    strict: bool = False,
    has_volume: bool = True,
) -> list[Finding]:
    """Return how a run differs from the good runs before it; none without such runs."""
    if not baseline:
        return []
    volumes = with_same_volume(baseline, run) if has_volume else []
    found = list(_of_tasks(run, baseline, strict))
    for step in dict.fromkeys(name for other in baseline for name in other.steps):
        before = [other.steps.get(step, StepProfile()) for other in baseline]
        about = _Subject(run, step, baseline[0], example, strict)
        found += _volume(about.now, [other.steps.get(step, StepProfile()).items for other in volumes], about)
        found += _of_step(before, about)
    return found


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
        self, run: RunProfile, step: str, last: RunProfile, example: FindExample, strict: bool
    ) -> None:
        self.now = run.steps.get(step, StepProfile())
        self._run, self._step, self._last, self._example, self._strict = run, step, last, example, strict
        self.field: str | None = None

    def finding(self, kind: str, text: str, *, example: str = "") -> Finding:
        """Return a finding; `example` is the type of the field, or EMPTY, that an item of the run shows."""
        step, field = self._step, self.field
        has_others = sum(bool(one.items) for one in self._last.steps.values()) > 1
        name = f"{step}.{field}" if field and has_others else field or step
        shown = self._example(step, field, example) if field and example else None
        return Finding(
            kind=kind,
            text=f"{printable(name)}: {text} (compared with run {self._last.run_id})",
            strict=self._strict,
            step=step,
            field=field,
            since=self._last.run_id,
            then=next(iter(self._last.steps.get(step, StepProfile()).examples), None),
            now=shown if shown is not None else next(iter(self.now.examples), None),
        )


def _of_step(before: Sequence[StepProfile], about: _Subject) -> Iterator[Finding]:
    now = about.now
    if not now.items:
        return
    yield from _pages_without_items(now, before, about)
    broken: list[str] = []
    for field in dict.fromkeys(name for one in before for name in one.fields):
        if any(field.startswith(f"{name}.") for name in broken):
            continue  # what is inside an object that is gone
        about.field = field
        compared = [one.fields[field] for one in before if field in one.fields]
        absent = FieldProfile(items=now.items, filled=0, types={}, distinct=0)
        if findings := list(_of_field(now.fields.get(field, absent), compared, len(before), about)):
            broken.append(field)
            yield from findings


def _volume(now: StepProfile, counts: Sequence[int], about: _Subject) -> Iterator[Finding]:
    usual = median(counts) if counts else 0
    if not usual:
        return
    spread = SPREAD * max(abs(count - usual) for count in counts)
    chance = VOLUME_SIGMAS * sqrt(usual)
    is_less = usual - now.items > max(FEWER * usual, spread, chance)
    if is_less or now.items - usual > max(MORE * usual, spread, chance):
        change = f"{abs(now.items - usual) / usual:.0%} {'fewer' if is_less else 'more'}"
        yield about.finding("volume", f"{now.items:,} items, {change} than the usual {usual:,.0f}")


def _pages_without_items(
    now: StepProfile, before: Sequence[StepProfile], about: _Subject
) -> Iterator[Finding]:
    shares = [_without_items(one) for one in before if one.completed]
    if shares and _has_risen(_without_items(now), shares, now.completed, TASKS_SHARE):
        text = f"{_percent(_without_items(now))} of the pages had no item, usually {_percent(median(shares))}"
        yield about.finding("without items", text)


def _of_field(
    now: FieldProfile, before: Sequence[FieldProfile], runs: int, about: _Subject
) -> Iterator[Finding]:
    filled = [one.filled_share for one in before] + [0.0] * (runs - len(before))
    usual, share = median(filled), now.filled_share
    vanished = not now.filled and min(filled) > 0 and usual * now.items >= MIN_ITEMS
    if vanished or _has_risen(1 - share, [1 - one for one in filled], now.items, SHARE):
        yield about.finding(
            "filled", f"filled in {_percent(share)} of the items, usually {_percent(usual)}", example=EMPTY
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
        yield about.finding("type", text, example=grown)


def _new_kinds(
    name: str, words: str, limit: float, now: FieldProfile, before: Sequence[FieldProfile], about: _Subject
) -> Iterator[Finding]:
    """Find values, or shapes of them, that no good run had, in a field which has few kinds of them."""
    kinds = [_short_kinds(getattr(one, name)) for one in before]
    if not all(kinds) or len(kinds) < 2:
        return
    for place, own in enumerate(kinds):
        others = {kind for other, found in enumerate(kinds) if other != place for kind in found}
        if _unknown_share(own, others) > KNOWN_BEFORE:
            return  # each run has its own, as a date of the run
    known = Counter[str]()
    for found in kinds:
        known.update(found)
    current = getattr(now, name)
    if current is None:
        yield about.finding(name, f"many different {name}, usually {len(known)}", example="text")
    elif (share := _unknown_share(current, known)) > limit:
        new = next(kind for kind in current if kind not in known)
        old = known.most_common(1)[0][0]
        text = f"{words} in {_percent(share)} of the items, such as {_quoted(new)}; usually {_quoted(old)}"
        yield about.finding(name, text)


def _short_kinds(kinds: Mapping[str, int] | None) -> Mapping[str, int]:
    return kinds if kinds and len(kinds) <= FEW_KINDS else {}


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
            yield about.finding(name, f"{words} is {middle:,.6g}, usually {expected:,.6g}")


def _fewer_distinct(now: FieldProfile, before: Sequence[FieldProfile], about: _Subject) -> Iterator[Finding]:
    """Find a field that repeats: a block page has one title, a page shown again its own items."""
    if now.more_distinct:
        return
    expected = [one.distinct * min(1.0, now.filled / one.filled) for one in before if one.filled]
    if expected and min(expected) >= MIN_SAMPLE and now.distinct < FEWER_DISTINCT * min(expected):
        text = f"{now.distinct:,} different values in {now.filled:,} items, usually {median(expected):,.0f}"
        yield about.finding("distinct", text)


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
