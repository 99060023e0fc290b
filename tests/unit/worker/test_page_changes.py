"""What differs between two visits of a page, field by field."""

import pytest

from shoal.worker import page_changes
from shoal.worker.page_changes import FieldDifference, compare_items

HAT, CAP = {"title": "Hat", "price": 10}, {"title": "Cap", "price": 5}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([HAT], [HAT | {"price": 12}], [(1, "price", 10, 12)]),
        ([HAT], [HAT | {"size": None}], [(1, "size", None, None)]),
        (
            [HAT],
            [{"name": "Cap"}],
            [(1, "title", "Hat", None), (1, "price", 10, None), (1, "name", None, "Cap")],
        ),
        ([HAT, CAP], [CAP, HAT], []),
        ([HAT], [CAP, HAT | {"price": 12}], [(2, "price", 10, 12), (1, None, None, CAP)]),
        ([HAT, CAP], [CAP], [(1, None, HAT, None)]),
        ([HAT], [HAT, HAT], [(2, None, None, HAT)]),
        (["a"], ["b"], [(1, "item", "a", "b")]),
    ],
)
def test_an_item_is_compared_with_the_one_that_shares_the_most_values(before, now, expected):
    found = compare_items(before, now)
    assert (found.stored, found.more) == ([FieldDifference(*one) for one in expected], 0)


def test_what_is_not_stored_of_a_page_is_counted(monkeypatch):
    monkeypatch.setattr(page_changes, "MAX_ITEMS", 4)
    monkeypatch.setattr(page_changes, "MAX_DIFFERENCES", 3)
    found = compare_items([], [{"n": number} for number in range(10)])
    assert (len(found.stored), found.more) == (3, 7)
    (long,) = compare_items([{"text": "a"}], [{"text": "b" * 5_000}]).stored
    assert len(long.new) < 1_100 and long.new.endswith("… (5,000 characters)")
