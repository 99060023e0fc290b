"""Which values a column can hold, and how they are encoded."""

import pytest

from shoal.export.table import Kind
from shoal.export.tables.columns import ColumnType, can_hold, encode_value
from tests.unit.export.factories import NOON


@pytest.mark.parametrize(
    ("kind", "column_type", "does"),
    [
        (Kind.INT, ColumnType.INT, True),
        (Kind.BIGINT, ColumnType.INT, True),
        (Kind.BIGINT, ColumnType.FLOAT, False),
        (Kind.BIGINT, ColumnType.DECIMAL, True),
        (Kind.FLOAT, ColumnType.INT, False),
        (Kind.BOOL, ColumnType.INT, False),
        (Kind.TEXT, ColumnType.INT, False),
        (Kind.TEXT, ColumnType.NUMERIC, False),
        (Kind.TEXT, ColumnType.CAST, True),
        (Kind.INT, ColumnType.CAST, False),
        (Kind.JSON, ColumnType.JSON, True),
    ],
)
def test_a_column_cannot_hold_values_that_would_lose_digits_or_zeros(kind, column_type, does):
    assert can_hold(kind, column_type) is does


@pytest.mark.parametrize("column_type", ColumnType)
def test_null_fits_everywhere_and_stays_null(column_type):
    assert can_hold(Kind.NULL, column_type)
    assert encode_value(None, column_type) is None


@pytest.mark.parametrize("column_type", [ColumnType.TEXT, ColumnType.JSON, ColumnType.ANY])
@pytest.mark.parametrize("kind", Kind)
def test_text_json_and_any_hold_every_kind(kind, column_type):
    assert can_hold(kind, column_type)


@pytest.mark.parametrize(
    ("value", "column_type", "told"),
    [
        ("007", ColumnType.TEXT, "007"),
        ("007", ColumnType.JSON, '"007"'),
        (True, ColumnType.TEXT, "true"),
        ([1, "ä"], ColumnType.TEXT, '[1,"ä"]'),
        ({"a": None}, ColumnType.JSON, '{"a":null}'),
        (NOON, ColumnType.CAST, "2026-02-15T12:00:00+00:00"),
        (2**60 + 1, ColumnType.DECIMAL, "1152921504606846977"),
        (3, ColumnType.FLOAT, 3.0),
        ([1], ColumnType.ANY, "[1]"),
        (False, ColumnType.NUMERIC, False),
    ],
)
def test_a_value_is_encoded_for_its_column(value, column_type, told):
    assert encode_value(value, column_type) == told
    assert type(encode_value(value, column_type)) is type(told)
