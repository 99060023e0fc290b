"""Column names of fields with arbitrary names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.export.tables.columns import ColumnNames, NameRules, hashed_name, quote_name

STRICT = NameRules(max_bytes=20, max_columns=10, reserved=("xmin",))
LAX = NameRules(max_bytes=20, max_columns=10, ignores_case=True)


@pytest.mark.parametrize("field", ["price", "Grüße", 'a"b', "; DROP TABLE x", " "])
def test_a_valid_name_is_unchanged(field):
    assert ColumnNames(STRICT).column_for(field) == field


@pytest.mark.parametrize(("field", "column"), [("", "_"), ("xmin", "xmin_"), ("a\0b", "a\ufffdb")])
def test_an_invalid_name_is_changed(field, column):
    assert ColumnNames(STRICT).column_for(field) == column


def test_long_names_with_the_same_start_get_different_columns():
    names = ColumnNames(STRICT)
    one, two = names.column_for("x" * 30), names.column_for("x" * 31)
    assert one != two
    assert len(one) == len(two) == 20


def test_names_that_differ_only_in_case_get_different_columns_where_case_is_ignored():
    names = ColumnNames(LAX)
    assert names.column_for("Name").lower() != names.column_for("name").lower()
    assert ColumnNames(STRICT).column_for("Name") == "Name"


def test_a_field_gets_the_same_column_in_any_order():
    first = ColumnNames(LAX)
    columns = {field: first.column_for(field) for field in ("Name", "name", "y" * 30)}
    again = ColumnNames(LAX, columns.values())
    assert {field: again.column_for(field) for field in reversed(columns)} == columns


def test_an_existing_column_keeps_its_spelling():
    assert ColumnNames(LAX, ["PRICE"]).column_for("price") == "PRICE"
    assert ColumnNames(STRICT, ["PRICE"]).column_for("price") == "price"


@given(st.lists(st.text(max_size=40), unique=True, max_size=20), st.sampled_from([STRICT, LAX]))
def test_no_two_fields_share_a_column_and_every_column_is_allowed(fields, rules):
    names = ColumnNames(rules)
    columns = [names.column_for(field) for field in fields]
    seen = {column.lower() if rules.ignores_case else column for column in columns}
    assert len(seen) == len(fields)
    assert all(0 < len(column.encode()) <= 20 and "\0" not in column for column in columns)
    assert columns == [names.column_for(field) for field in fields]


def test_a_name_is_cut_between_characters():
    assert hashed_name("ä" * 30, 20).startswith("ääää_")


def test_a_quoted_name_cannot_end_early():
    assert quote_name('a"; DROP TABLE x; --') == '"a""; DROP TABLE x; --"'
