"""The rules of the setting `expect`: how they are written, and what is refused."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.expect import EXAMPLES, Expectations, read_expect
from shoal.scrape.settings.scraper import ScraperSettings


@pytest.mark.parametrize("rule", EXAMPLES)
def test_every_example_is_a_rule(rule):
    (found,) = read_expect("expect", rule).rules
    assert (found.text, found.strict) == (rule, True)


@pytest.mark.parametrize(
    ("given", "rules", "defaults"),
    [
        ("on", [], "warn"),
        (True, [], "warn"),
        ("off", [], "off"),
        (None, [], "off"),
        ("strict", [], "strict"),
        (["items  >=  5", "no defaults"], ["items >= 5"], "off"),
        ("items >= 5; warn sku unique; strict", ["items >= 5", "warn sku unique"], "strict"),
    ],
)
def test_rules_are_a_list_or_one_text(given, rules, defaults):
    found = read_expect("expect", given)
    assert ([rule.text for rule in found.rules], found.defaults) == (rules, defaults)
    assert read_expect("expect", str(found)) == found  # as reports show it


@pytest.mark.parametrize(
    "given",
    [
        "items > 5",
        "price filled >= much",
        "price in ..",
        "price is money",
        "sku matches (",
        "sku matches (a+)+b",
        "price",
        5,
        [5],
        {"items": 5},
    ],
)
def test_what_is_no_rule_is_refused_with_what_to_write(given):
    with pytest.raises(InvalidSetting, match="expect"):
        ScraperSettings.read(expect=given)


def test_values_of_a_field_are_admitted_or_not():
    (in_range,) = read_expect("expect", "price in -1.5..").rules
    assert in_range.admits(0) and not in_range.admits(-2)
    assert not in_range.admits("3") and not in_range.admits(True)
    (whole,) = read_expect("expect", "n is whole").rules
    assert whole.admits(3) and not whole.admits(3.5) and not whole.admits(True)
    (pattern,) = read_expect("expect", "sku matches AB-[0-9]+").rules
    assert pattern.admits("AB-12") and not pattern.admits("AB-12x") and not pattern.admits(12)
    assert Expectations() == ScraperSettings().expect
