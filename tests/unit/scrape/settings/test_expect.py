"""The rules of the setting `expect`: how they are written, and what is refused."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.scraper import Scraper
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
        "price in 5..1",
        "price filled >= 950%",
        "dead <= 101%",
        "product blocked <= 1%",
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


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("produkt items >= 5", "Did you mean 'product'?"),
        ("list dead <= 1%", "has no step 'list'"),
        ("product price filled >= 95%", "write 'product.price'"),
    ],
)
def test_a_rule_about_a_step_that_does_not_exist_is_refused_when_a_run_starts(rule, why):
    shop = Scraper("shop", expect=rule)
    shop.step(name="product")(lambda page: None)
    with pytest.raises(InvalidSetting, match=f"{rule}.*{why}"):
        shop.run_settings()
    shop.replace(expect="product items >= 5; shown price filled >= 95%").run_settings()


def test_a_pattern_may_contain_the_words_of_other_rules():
    (rule,) = read_expect("expect", "shown name, other matches .* is unique").rules
    assert (rule.kind, rule.names, rule.pattern) == ("pattern", ("shown name", "other"), ".* is unique")
