"""Which values fit which columns, and how they go in."""

import pytest

from shoal.export.columns import Holds, as_held, fits
from shoal.export.kinds import Kind
from tests.unit.export.making import NOON


@pytest.mark.parametrize(
    ("kind", "holds", "does"),
    [
        (Kind.WHOLE, Holds.WHOLE, True),
        (Kind.LONG, Holds.WHOLE, True),
        (Kind.LONG, Holds.FRACTION, False),
        (Kind.LONG, Holds.NUMBER, True),
        (Kind.FRACTION, Holds.WHOLE, False),
        (Kind.TRUTH, Holds.WHOLE, False),
        (Kind.TEXT, Holds.WHOLE, False),
        (Kind.TEXT, Holds.NUMERIC, False),
        (Kind.TEXT, Holds.CAST, True),
        (Kind.WHOLE, Holds.CAST, False),
        (Kind.NESTED, Holds.JSON, True),
    ],
)
def test_what_would_lose_a_digit_or_a_zero_does_not_fit(kind, holds, does):
    assert fits(kind, holds) is does


@pytest.mark.parametrize("holds", Holds)
def test_nothing_fits_everywhere_and_stays_nothing(holds):
    assert fits(Kind.NOTHING, holds)
    assert as_held(None, holds) is None


@pytest.mark.parametrize("holds", [Holds.TEXT, Holds.JSON, Holds.ANYTHING])
@pytest.mark.parametrize("kind", Kind)
def test_text_json_and_anything_take_all(kind, holds):
    assert fits(kind, holds)


@pytest.mark.parametrize(
    ("value", "holds", "told"),
    [
        ("007", Holds.TEXT, "007"),
        ("007", Holds.JSON, '"007"'),
        (True, Holds.TEXT, "true"),
        ([1, "ä"], Holds.TEXT, '[1,"ä"]'),
        ({"a": None}, Holds.JSON, '{"a":null}'),
        (NOON, Holds.CAST, "2026-02-15T12:00:00+00:00"),
        (2**60 + 1, Holds.NUMBER, "1152921504606846977"),
        (3, Holds.FRACTION, 3.0),
        ([1], Holds.ANYTHING, "[1]"),
        (False, Holds.NUMERIC, False),
    ],
)
def test_a_value_goes_in_as_its_column_holds_it(value, holds, told):
    assert as_held(value, holds) == told
    assert type(as_held(value, holds)) is type(told)
