"""Nights on which a site has changed are noticed by default, and ordinary ones are not."""

import re
from copy import deepcopy
from functools import cache

import pytest
from msgspec.structs import replace

from shoal.core.run_outcome import RunOutcome
from shoal.fleet.quality.records import without_items
from shoal.scrape.settings.expect import read_expect
from tests.unit.fleet.quality.nights import Shop, all_items, said

BLOCK_PAGE = {"name": "Just a moment...", "sku": None, "price": None, "brand": None, "stock": None}


def rename_class(item, rng):
    item["price"] = None


def price_as_text(item, rng):
    item["price"] = f"{item['price']} GBP"


def new_currency(item, rng):
    item["currency"] = "EUR"
    item["price"] = round(item["price"] * 1.17, 2)
    item["shown_price"] = item["shown_price"].replace("£", "€")


def optional_field(item, rng):
    if rng.random() < 0.3:
        item["energy_label"] = rng.choice("ABC")


def blocked_for_most(pages, rng):
    return [None if rng.random() < 0.6 else page for page in pages]


def block_pages_with_items(pages, rng):
    return [dict(BLOCK_PAGE) if page and rng.random() < 0.6 else page for page in pages]


def half_gone(pages, rng):
    return pages[::2]


def a_tenth_more(pages, rng):
    return [*pages, *(dict(page, sku=f"{page['sku']}-2") for page in pages[: len(pages) // 10] if page)]


def same_page_again(pages, rng):
    return [dict(pages[place % 20] or pages[20]) for place in range(len(pages))]


def rejected_selector(item, rng):
    del item["seller"]


def pence(item, rng):
    item["price"] = round(item["price"] * 100)


def other_dates(item, rng):
    year, month, day = item["updated"].split("-")
    item["updated"] = f"{day}.{month}.{year}"


def other_language(item, rng):
    item["stock"] = {"in stock": "auf Lager", "few left": "fast weg", "sold out": "vergriffen"}[item["stock"]]


def teaser(item, rng):
    item["description"] = item["description"][:12]


def one_title(item, rng):
    item["name"] = "Welcome to our shop"


def ratings_for_some(item, rng):
    if rng.random() < 0.4:
        item["rating"] = None


def inner_field(item, rng):
    item["seller"]["country"] = None


def all_sold_out(item, rng):
    item["stock"] = "sold out"


def all_sold_out_as_a_flag(item, rng):
    item["is_sold_out"] = True


def object_as_text(item, rng):
    item["seller"] = item["seller"]["name"]


def other_skus(item, rng):
    item["sku"] = item["sku"].lower().replace("-", "_")


def twice(pages, rng):
    return [*pages, *pages]


CHANGES = [
    ("a renamed CSS class", all_items(rename_class), ("filled", "price")),
    ("block pages with status 200", blocked_for_most, ("without items", None)),
    ("block pages that the step takes for products", block_pages_with_items, ("filled", "sku")),
    ("half the catalogue gone", half_gone, ("volume", None)),
    ("prices as text", all_items(price_as_text), ("type", "price")),
    ("a new currency", all_items(new_currency), ("values", "currency")),
    ("a new currency in the shown price", all_items(new_currency), ("shapes", "shown_price")),
    ("one page shown for every page", same_page_again, ("distinct", "sku")),
    ("an object that is gone", all_items(rejected_selector), ("filled", "seller")),
    ("prices in pence", all_items(pence), ("numbers", "price")),
    ("another format of dates", all_items(other_dates), ("shapes", "updated")),
    ("another language", all_items(other_language), ("values", "stock")),
    ("only the beginning of descriptions", all_items(teaser), ("lengths", "description")),
    ("one title on every page", all_items(one_title), ("distinct", "name")),
    ("a field that a part of the pages has lost", all_items(ratings_for_some), ("filled", "rating")),
    ("a field inside an object", all_items(inner_field), ("filled", "seller.country")),
    ("every product twice", twice, ("volume", None)),
    ("everything sold out", all_items(all_sold_out), ("values", "stock")),
    ("everything sold out, as a flag", all_items(all_sold_out_as_a_flag), ("values", "is_sold_out")),
    ("an object that became text", all_items(object_as_text), ("type", "seller")),
    ("numbers of products written in another way", all_items(other_skus), ("shapes", "sku")),
]


@cache
def _shop_after(nights, **options):
    shop = Shop(**options)
    for _ in range(nights):
        assert not shop.night().findings
    return shop


def shop_after(nights, *, expect=True, **options):
    shop = deepcopy(_shop_after(nights, **options))
    shop.expect = read_expect("expect", expect)
    return shop


@pytest.mark.parametrize(("name", "change", "expected"), CHANGES, ids=[name for name, *_ in CHANGES])
def test_a_change_of_the_site_is_a_warning_with_its_reason(name, change, expected):
    record = shop_after(4).night(change)
    assert expected in said(record)
    finding = next(one for one in record.findings if (one.kind, one.field) == expected)
    assert finding.since == "night-3" and "night-3" in finding.text
    assert bool(finding.then) is bool(finding.now) is bool(finding.field)
    assert record.verdict.outcome is RunOutcome.COMPLETE  # a warning


def test_a_new_format_is_shown_by_values():
    record = shop_after(4).night(all_items(new_currency))
    (text,) = [one.text for one in record.findings if one.field == "shown_price"]
    assert re.fullmatch(
        r"shown_price: a new format in 100% of the items, such as '€[0-9.]+'; usually like '£[0-9.]+' .*",
        text,
    )


def test_the_same_changes_end_the_run_as_suspicious_if_the_scraper_says_so():
    record = shop_after(4, expect="strict").night(all_items(rename_class))
    assert (record.verdict.outcome, record.verdict.exit_code) == (RunOutcome.SUSPICIOUS, 7)
    assert record.verdict.reason.startswith("price: filled in 0% of the items, usually 100%")


@pytest.mark.parametrize("change", [a_tenth_more, all_items(optional_field)], ids=["a tenth more", "a field"])
def test_ordinary_changes_are_no_findings(change):
    shop = shop_after(4)
    assert not shop.night(change).findings


@pytest.mark.parametrize(("size", "seed"), [(40, 1), pytest.param(400, 3, marks=pytest.mark.full)])
def test_sixty_ordinary_nights_have_no_findings(size, seed):
    shop = shop_after(60, size=size, seed=seed)
    assert {record.verdict.outcome for record in shop.records} == {RunOutcome.COMPLETE}


def night_after_a_purge(shop, change=None):
    """Scrape after all earlier runs were deleted, of which only numbers are kept."""
    shop.records = [without_items(record) for record in shop.records]
    return shop.night(change)


def test_ordinary_nights_have_no_findings_when_earlier_runs_are_deleted():
    shop = Shop(size=48)
    assert not any(night_after_a_purge(shop).findings for _ in range(20))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (new_currency, ("values", "currency")),
        (other_language, ("values", "stock")),
        (one_title, ("distinct", "name")),
    ],
)
def test_a_change_is_a_finding_when_earlier_runs_are_deleted(change, expected):
    shop = shop_after(4, size=48, seed=2)
    assert expected in said(night_after_a_purge(shop, all_items(change)))


def test_a_fault_that_lasts_stays_a_finding_until_the_run_is_accepted():
    shop = shop_after(4)
    for _ in range(20):
        assert said(shop.night(all_items(rename_class))) == [("filled", "price")]
    shop.records[-1] = replace(shop.records[-1], accepted=True)
    assert not shop.night(all_items(rename_class)).findings
    assert ("type", "price") not in said(shop.night())  # it comes back, which is no loss


def test_nights_that_were_compared_with_an_accepted_run_are_no_measure_when_that_is_taken_back():
    shop, broken = shop_after(4), all_items(rename_class)
    shop.night(broken)
    shop.records[-1] = replace(shop.records[-1], accepted=True)
    for _ in range(8):
        assert not shop.night(broken).findings
    shop.records[4] = replace(shop.records[4], accepted=False)
    assert said(shop.night(broken)) == [("filled", "price")]
    assert not shop.night().findings


def test_two_good_runs_are_not_enough_to_compare_with():
    shop = shop_after(2)
    assert not shop.night(half_gone).findings


def test_rejected_requests_and_failed_tasks_are_findings():
    assert ("dead", None) in said(shop_after(4).night(dead=100))
    record = shop_after(4).night(dead=100, blocked=90)
    assert ("blocked", None) in said(record) and record.verdict.outcome is RunOutcome.PARTIAL


def test_a_night_without_items_is_empty():
    record = shop_after(4).night(lambda pages, rng: [None] * len(pages))
    assert (record.verdict.outcome, record.verdict.exit_code) == (RunOutcome.EMPTY, 9)
    assert record.verdict.reason.startswith("product: 0 items, 100% fewer than the usual")


@pytest.mark.parametrize(
    ("rule", "change", "broken"),
    [
        ("items >= 300", half_gone, True),
        ("items >= 300", None, False),
        ("items within 20%", half_gone, True),
        ("items within 20%", a_tenth_more, False),
        ("price filled >= 95%", all_items(ratings_for_some), False),
        ("rating filled >= 60%", all_items(ratings_for_some), True),
        ("product.price is number", all_items(price_as_text), True),
        ("price is number", None, False),
        ("price in 0.1..3000", all_items(pence), True),
        ("price in 0.1..", None, False),
        ("sku matches AB-[0-9]+", None, False),
        ("currency matches GBP", all_items(new_currency), True),
        ("sku unique", twice, True),
        ("sku, name unique", None, False),
        ("product without items <= 5%", blocked_for_most, True),
        ("product without items <= 5%", None, False),
        ("pricee filled >= 1%", None, True),
    ],
)
def test_a_broken_rule_makes_the_run_suspicious(rule, change, broken):
    record = shop_after(4, expect=[rule, "no defaults"]).night(change)
    assert (record.verdict.outcome is RunOutcome.SUSPICIOUS) == broken
    assert [rule in finding.text for finding in record.findings] == [True] * broken


def test_a_rule_may_be_only_a_warning():
    record = Shop(expect="warn items >= 100000; no defaults").night()
    assert record.verdict.outcome is RunOutcome.COMPLETE and not record.findings[0].strict


OFFERS = ["Winter sale", "Spring sale", "Black Friday", "Summer", "Clearance"]


def nights_with_findings(change, nights):
    shop = Shop(size=40, seed=5)
    found = [shop.night(all_items(lambda item, rng, n=n: change(item, n))).findings for n in range(nights)]
    return [n for n, findings in enumerate(found) if findings]


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        (lambda item, n: item.update(offer=OFFERS[n // 4 % 5]), [4, 5, 6, 7, 8]),
        (lambda item, n: item.update(week=f"Week {40 + n // 7}"), []),
        (lambda item, n: item.update(day=f"2026-01-{n + 1:02}"), []),
        (lambda item, n: item.update(currency="EUR" if n >= 5 else "GBP"), [*range(5, 24)]),
    ],
    ids=["an offer", "a number of the week", "the day", "a currency that stays"],
)
def test_values_that_change_from_time_to_time_are_no_findings_from_the_second_change_on(change, warned):
    assert nights_with_findings(change, 24) == warned


def test_what_was_usual_before_a_run_was_accepted_is_no_finding_either():
    shop = shop_after(4)
    record = shop.night(half_gone)
    shop.records[-1] = replace(record, accepted=True)
    assert not shop.night(half_gone).findings
    assert not shop.night().findings  # the other half is back
    assert said(shop.night(all_items(rename_class))) == [("filled", "price")]
