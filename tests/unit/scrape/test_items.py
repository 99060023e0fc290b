"""Yielded values become plain, validated data; rejects are kept with the reason."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from shoal.core.errors import InvalidItem, InvalidSetting
from shoal.core.model import Reject
from shoal.queue.intake import encode_item
from shoal.scrape.items import is_item, make_reject, validate_item, validator_for


class Colour(Enum):
    RED = "red"


@dataclass
class Book:
    title: str
    price: float
    pages: int | None = None
    tags: list[str] = field(default_factory=list)


class Struct(msgspec.Struct):
    title: str
    price: Annotated[float, msgspec.Meta(gt=0)]


class Typed(TypedDict):
    title: str
    price: float


class Model(BaseModel):
    title: str
    price: float
    seen: datetime | None = None

    @field_validator("price")
    @classmethod
    def positive(cls, value):
        if value <= 0:
            raise ValueError("must be positive")
        return value


KINDS = [Book, Struct, Typed, Model]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_read_from_text_since_text_is_what_a_page_holds(kind):
    item = validate_item({"title": "A", "price": "12.50"}, validator_for(kind))
    assert item["title"] == "A"
    assert item["price"] == 12.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("price", [" 12.50", "12.50\n", "\u00a012.50 "])
def test_a_number_may_have_blanks_around_it(kind, price):
    """`"£ 12.50".replace("£", "")` has one, and `float()` accepts it."""
    item = validate_item({"title": " A ", "price": price}, validator_for(kind))
    assert item["title"] == " A "
    assert item["price"] == 12.5


def test_several_numbers_may_have_blanks_and_a_reject_keeps_the_text_as_it_was():
    check = validator_for(Book)
    assert validate_item({"title": "A", "price": " 2 ", "pages": " 30 "}, check)["pages"] == 30
    reject = validate_item({"title": "A", "price": " 2 ", "pages": " many "}, check)
    assert reject.data == {"title": "A", "price": " 2 ", "pages": " many "}
    assert reject.reason == "pages: Expected `int | null`, got `str` (' many ')"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("price", ["£12.50", "", None, "12,50", [1], {}])
def test_a_wrong_value_is_kept_as_a_reject_that_names_the_field(kind, price):
    reject = validate_item({"title": "A", "price": price}, validator_for(kind))
    assert isinstance(reject, Reject)
    assert reject.data == {"title": "A", "price": price}
    assert reject.reason.startswith("price: ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_field_is_named(kind):
    reject = validate_item({"title": "A"}, validator_for(kind))
    assert reject.reason.startswith("price: ")
    assert "missing" in reject.reason.lower() or "required" in reject.reason.lower()


def test_the_reason_shows_what_was_found():
    assert (
        validate_item({"title": "A", "price": "£5"}, validator_for(Book)).reason
        == "price: Expected `float`, got `str` ('£5')"
    )
    reason = validate_item({"title": "A", "price": 1, "tags": ["a", 3]}, validator_for(Book)).reason
    assert reason == "tags[1]: Expected `str`, got `int`"


def test_rules_of_the_type_hold():
    assert "price" in validate_item({"title": "A", "price": 0}, validator_for(Struct)).reason
    assert "price: " in validate_item({"title": "A", "price": "-1"}, validator_for(Model)).reason


def test_a_type_may_refuse_for_reasons_of_its_own():
    @dataclass
    class Picky:
        title: str

        def __post_init__(self):
            if self.title.isupper():
                raise ValueError("do not shout")

    assert validate_item({"title": "A"}, validator_for(Picky)).reason == "do not shout"
    assert validate_item({"title": "a"}, validator_for(Picky)) == {"title": "a"}


@pytest.mark.parametrize(
    "value",
    [Book("A", 1.5), Struct("A", 1.5), Model(title="A", price=1.5), OrderedDict(title="A", price=1.5)],
)
def test_records_are_items_with_and_without_a_type(value):
    assert is_item(value)
    for check in (None, validator_for(Book), validator_for(Model)):
        item = validate_item(value, check)
        assert (item["title"], item["price"]) == ("A", 1.5)


def test_a_record_is_checked_even_if_it_has_the_right_class():
    assert validate_item(Book("A", "cheap"), validator_for(Book)).reason.startswith("price: ")


def test_values_become_what_json_can_hold():
    item = validate_item(
        {
            "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            "day": date(2026, 1, 2),
            "long": timedelta(hours=1),
            "exact": Decimal("1.10"),
            "id": UUID(int=5),
            "bytes": b"\xff",
            "set": {1},
            "tuple": (1, 2),
            "enum": Colour.RED,
            "path": PurePosixPath("/a/b"),
            "view": MappingProxyType({"a": 1}),
            "model": Model(title="A", price=1),
            "record": Book("A", 1.0),
            "big": 1 << 70,
            7: "number",
        },
        None,
    )
    assert item["time"] == "2026-01-02T03:04:05Z"
    assert item["exact"] == "1.10"
    assert item["bytes"] == "/w=="
    assert (item["set"], list(item["tuple"]), item["enum"], item["path"]) == ([1], [1, 2], "red", "/a/b")
    assert item["view"] == {"a": 1}
    assert item["model"]["title"] == item["record"]["title"] == "A"
    assert item["7"] == "number"
    assert msgspec.json.decode(encode_item(item))["big"] == 1 << 70


@pytest.mark.parametrize(
    "value", [{"a": object()}, {"a": {(1, 2): 3}}, {"a": lambda: 1}, {None: 1}, {"a": range(3)}]
)
def test_what_json_cannot_hold_is_an_error_of_the_step(value):
    with pytest.raises(InvalidItem, match="it is not JSON"):
        validate_item(value, None)


def test_endless_data_is_an_error_and_not_a_crash():
    find_endless = {}
    find_endless["self"] = find_endless
    with pytest.raises(InvalidItem, match="it is not JSON"):
        validate_item(find_endless, None)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfff tail"])
def test_text_that_no_store_can_keep_makes_a_reject_that_any_store_can(text):
    reject = validate_item({"title": text, "deep": [{text: text}]}, None)
    assert isinstance(reject, Reject)
    assert encode_item(reject.data) and encode_item(reject.reason)
    assert "\ufffd" in reject.data["title"]


def test_an_escaped_zero_is_no_zero():
    assert validate_item({"a": "\\u0000"}, None) == {"a": "\\u0000"}


def test_a_reject_is_bounded_and_plain():
    reject = make_reject({"when": date(2026, 1, 2)}, "x" * 10_000)
    assert reject.data == {"when": "2026-01-02"}
    assert len(reject.reason) == 2_000


@pytest.mark.parametrize("value", ["text", 5, ["a"], (1,), None, Book, object(), b"x"])
def test_what_is_no_item(value):
    assert not is_item(value)


@pytest.mark.parametrize("item", [int, str, list, dict, "Book", 5, object, Book("A", 1.0)])
def test_an_unfit_type_is_refused_with_the_fit_ones(item):
    with pytest.raises(
        InvalidSetting, match="item must be a dataclass, a TypedDict, a msgspec Struct or a pydantic"
    ):
        validator_for(item)


def test_a_type_that_cannot_be_checked_is_an_error_of_the_step_and_not_of_the_data():
    @dataclass
    class Odd:
        title: "Nowhere"  # noqa: F821

    with pytest.raises(InvalidItem, match="the step's item type cannot be checked"):
        validate_item({"title": "A"}, validator_for(Odd))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_rejected_with_its_place(number):
    found = validate_item({"title": None, "prices": [{"now": 1.5}, {"now": number}]}, None)
    assert found.reason == f"prices.1.now is {number}, which JSON cannot hold. Yield None or text instead"
    assert validate_item({"title": None, "price": 1.5}, None) == {"title": None, "price": 1.5}
