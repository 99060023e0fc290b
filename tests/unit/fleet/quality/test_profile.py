"""The statistics of fields: which have some, and what rules see of items of any form."""

from datetime import UTC, datetime

import pytest

from shoal.core.model import StoredItem
from shoal.fleet.quality import profile as module
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import MAX_FIELDS, StepProfiler
from shoal.fleet.quality.records import Baseline, RunProfile
from shoal.fleet.quality.rules import broken_rules
from shoal.fleet.status.quality import profile_report
from shoal.scrape.settings.expect import read_expect

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def profile_items(*batches, expect=True):
    profiler = StepProfiler("product", read_expect("expect", expect).rules)
    for batch in batches:
        profiler.add(
            [
                StoredItem(id=id, task_id=str(id), url=None, step="product", data=data, stored_at=NOW)
                for id, data in enumerate(batch)
            ]
        )
    return profiler.profile()


def run_of(step, run_id="run"):
    return RunProfile(run_id=run_id, started_at=NOW, items=step.items, steps={"product": step})


NONE = Baseline()


def check(rule, *items, baseline=NONE):
    found = broken_rules(
        read_expect("expect", rule).rules,
        run_of(profile_items(items, expect=rule)),
        baseline,
        lambda *what: None,
    )
    return [(finding.text.partition(": ")[2], finding.strict) for finding in found]


def test_objects_whose_names_are_data_are_one_field_and_the_report_says_so():
    items = [
        {"prices": {f"2026-01-{n:02}": n}, "by_id": {f"id-{n}": n}, "seller": {"name": "a"}}
        for n in range(40)
    ]
    found = profile_items(items[:20], [*items[20:], {"late": 1}])
    assert list(found.fields) == ["prices", "by_id", "seller", "seller.name", "late"]
    assert found.uncounted == ["prices.*", "by_id.*"]
    assert found.fields["prices"].filled == found.fields["seller.name"].filled == 40
    report = profile_report(run_of(found))
    assert report.notice.endswith("too many fields: product.prices.*, product.by_id.*.")


def test_fields_inside_objects_take_no_place_of_fields_of_items():
    wide = {f"object {n}": {f"name {m}": 1 for m in range(20)} for n in range(10)}
    found = profile_items([wide], [{f"field {n}": 1 for n in range(120)}])
    own = [name for name in found.fields if "." not in name]
    assert len(own) == MAX_FIELDS and len(found.fields) == 2 * MAX_FIELDS
    assert found.more_uncounted == 100 + 30 - len(found.uncounted)


def test_an_object_that_had_fewer_names_before_is_no_finding():
    sizes = [{"sizes": {f"size {n}": 1 for n in range(count)}} for count in (20, 40)]
    before, now = (run_of(profile_items([item] * 40)) for item in sizes)
    assert not differences(now, Baseline(fields=[before], volumes=[before]), lambda *what: None)


def test_a_name_with_a_dot_is_a_field_like_others():
    found = profile_items([{"a.b": 1}], [{"c": 1}])
    assert (found.fields["a.b"].items, found.fields["a.b"].filled) == (2, 1)
    assert check("a.b filled >= 90%", {"a.b": 1}, {}) == [("filled in 50.0% of the items", True)]


def test_a_field_may_be_named_with_its_step_or_be_inside_an_object_of_that_name():
    assert check("product.price in 1..2", {"price": 5}) == [("1 of 1 item not", True)]
    assert check("product.price in 1..2", {"product": {"price": 5}}) == [("1 of 1 item not", True)]
    assert check("shown price is number", {"shown price": "5"}) == [("1 of 1 item not", True)]


def test_a_field_that_is_in_no_item_is_a_warning_unless_earlier_runs_had_it():
    unknown = [("no item has the field 'old_price'", False)]
    assert check("old_price in 1..2", {"price": 5}) == unknown
    before = run_of(profile_items([{"old_price": 1}]), "before")
    assert check("old_price in 1..2", {"price": 5}, baseline=Baseline(fields=[before])) == []
    ((text, _),) = check("variants.price is number", {"variants": [{"price": 1}]})
    assert text.endswith("'variants' is a list, and what its objects hold cannot be checked")


def test_a_rule_about_unique_values_says_that_there_are_more_than_it_compares(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    ((text, strict),) = check("sku unique", *({"sku": n} for n in range(3)))
    assert text.startswith("compared with the first") and not strict


@pytest.mark.parametrize("number", [10**400, 1e308], ids=["whole", "float"])
def test_numbers_whose_sum_is_too_large_have_no_median(number):
    found = profile_items([{"n": number}, {"n": number}]).fields["n"]
    assert (found.filled, found.types, found.numbers) == (2, {"number": 2}, None)
