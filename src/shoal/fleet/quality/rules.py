"""Checks the rules of a scraper (`expect=`) against the statistics of a run: pure."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from shoal.core.run_outcome import Finding
from shoal.core.values import counted, median
from shoal.fleet.quality.differences import FindExample
from shoal.fleet.quality.profile import EMPTY, MAX_KEYS, FieldProfile, StepProfile
from shoal.fleet.quality.records import Baseline, RunProfile
from shoal.scrape.settings.expect import Expectation, spellings


def broken_rules(
    rules: Iterable[Expectation], run: RunProfile, baseline: Baseline, example: FindExample
) -> list[Finding]:
    """Return a finding for each rule that the run breaks."""
    return [finding for rule in rules for finding in _check(rule, run, baseline, example)]


def _check(rule: Expectation, run: RunProfile, baseline: Baseline, example: FindExample) -> Iterator[Finding]:
    match rule.kind:
        case "items":
            items = _items(run, rule.step)
            least, most = rule.least or 0, items if rule.most is None else rule.most
            if not least <= items <= most:
                yield _finding(rule, counted(items, "item"), "volume")
        case "within":
            yield from _check_within(rule, run, baseline)
        case "share":
            share = run.share(rule.what, rule.step)
            if share > (rule.most or 0.0):
                yield _finding(rule, f"{share:.1%} of them", rule.what)
        case "filled":
            yield from _check_filled(rule, run, example)
        case _:
            yield from _check_items(rule, run, baseline)


def _check_within(rule: Expectation, run: RunProfile, baseline: Baseline) -> Iterator[Finding]:
    before = baseline.with_limit(run.cut)
    if not before:
        return
    usual, items = median(_items(one, rule.step) for one in before), _items(run, rule.step)
    if abs(items - usual) > (rule.most or 0.0) * usual:
        text = f"{counted(items, 'item')}, usually {usual:,.0f} (compared with run {before[0].run_id})"
        yield _finding(rule, text, "volume", since=before[0].run_id)


def _check_filled(rule: Expectation, run: RunProfile, example: FindExample) -> Iterator[Finding]:
    for name in rule.names:
        fields = dict(_fields(run, name))
        if run.items and not fields:
            yield _finding(rule, _unknown(run, name), "filled", field=name)
        for step, (field, found) in fields.items():
            if found.filled_share < (rule.least or 0.0):
                share, now = f"filled in {found.filled_share:.1%} of the items", example(step, field, EMPTY)
                yield _finding(rule, share, "filled", step=step, field=field, now=now)


def _check_items(rule: Expectation, run: RunProfile, baseline: Baseline) -> Iterator[Finding]:
    for name in rule.names:
        # An optional field may be in no item today; one that never was is misspelled.
        if run.items and not any(dict(_fields(one, name)) for one in (run, *baseline.last)):
            unknown = replace(_finding(rule, _unknown(run, name), rule.kind, field=name), strict=False)
            yield unknown
    for step, one in run.steps.items():
        if not (broken := one.violations.get(rule.text)):
            continue
        field = spellings(rule.names[0], step)[-1]
        if broken.count:
            text = f"{broken.count:,} of {counted(one.items, 'item')} not"
            yield _finding(rule, text, rule.kind, step=step, field=field, now=broken.example)
        if broken.is_cut:
            text = f"compared with the first {MAX_KEYS:,} different values only"
            yield replace(_finding(rule, text, rule.kind, step=step, field=field), strict=False)


def _unknown(run: RunProfile, name: str) -> str:
    """Return that no item has a field; fields of objects in a list have no statistics."""
    outer = name.rpartition(".")[0]
    is_listed = any("list" in found.types for _, (_, found) in _fields(run, outer))
    why = f"; {outer!r} is a list, and what its objects hold cannot be checked" if is_listed else ""
    return f"no item has the field {name!r}{why}"


def _items(run: RunProfile, step: str | None) -> int:
    return run.items if step is None else run.steps.get(step, StepProfile()).items


def _fields(run: RunProfile, name: str) -> Iterator[tuple[str, tuple[str, FieldProfile]]]:
    """Yield the steps that have a field, which may be written as STEP.FIELD, with its name and statistics."""
    for step, one in run.steps.items():
        for local in spellings(name, step):
            if local in one.fields:
                yield step, (local, one.fields[local])
                break


def _finding(rule: Expectation, text: str, kind: str, **facts: object) -> Finding:
    found: Mapping[str, object] = {
        "text": f"expected {rule.text!r}: {text}",
        "kind": kind,
        "strict": rule.strict,
    }
    return Finding(**found, **facts)  # type: ignore[arg-type]
