"""Columns of fields that may be called anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.export.names import ColumnNames, NameRules, marked_name, quoted

STRICT = NameRules(longest=20, most=10, reserved=("xmin",))
LAX = NameRules(longest=20, most=10, ignores_case=True)


@pytest.mark.parametrize("field", ["price", "Grüße", 'a"b', "; DROP TABLE x", " "])
def test_a_name_that_the_database_allows_is_kept(field):
    assert ColumnNames(STRICT).of(field) == field


@pytest.mark.parametrize(("field", "column"), [("", "_"), ("xmin", "xmin_"), ("a\0b", "a\ufffdb")])
def test_a_name_that_no_column_can_have_is_changed(field, column):
    assert ColumnNames(STRICT).of(field) == column


def test_long_names_with_the_same_beginning_get_columns_of_their_own():
    names = ColumnNames(STRICT)
    one, two = names.of("x" * 30), names.of("x" * 31)
    assert one != two
    assert len(one) == len(two) == 20


def test_names_that_differ_only_in_case_are_kept_apart_where_the_database_does_not_see_it():
    names = ColumnNames(LAX)
    assert names.of("Name").lower() != names.of("name").lower()
    assert ColumnNames(STRICT).of("Name") == "Name"


def test_a_field_finds_its_column_again_whatever_the_order():
    first = ColumnNames(LAX)
    columns = {field: first.of(field) for field in ("Name", "name", "y" * 30)}
    again = ColumnNames(LAX, columns.values())
    assert {field: again.of(field) for field in reversed(columns)} == columns


def test_a_column_that_is_there_keeps_its_spelling():
    assert ColumnNames(LAX, ["PRICE"]).of("price") == "PRICE"
    assert ColumnNames(STRICT, ["PRICE"]).of("price") == "price"


@given(st.lists(st.text(max_size=40), unique=True, max_size=20), st.sampled_from([STRICT, LAX]))
def test_no_two_fields_share_a_column_and_every_column_is_allowed(fields, rules):
    names = ColumnNames(rules)
    columns = [names.of(field) for field in fields]
    seen = {column.lower() if rules.ignores_case else column for column in columns}
    assert len(seen) == len(fields)
    assert all(0 < len(column.encode()) <= 20 and "\0" not in column for column in columns)
    assert columns == [names.of(field) for field in fields]


def test_a_mark_is_cut_between_characters():
    assert marked_name("ä" * 30, 20).startswith("ääää_")


def test_a_quoted_name_cannot_end_early():
    assert quoted('a"; DROP TABLE x; --') == '"a""; DROP TABLE x; --"'
