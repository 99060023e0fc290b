"""The arguments of a scraper: declared, given as text or values, and stored."""

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

import msgspec
import pytest

from shoal import Scraper
from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.args import DeclaredArgs, dump_args


@dataclass
class Args:
    category: str
    pages: int = 3
    full: bool = False
    since: date | None = None
    tags: list[str] = field(default_factory=list)
    sort: Literal["price", "name"] = "name"

    def __post_init__(self):
        if self.pages > 100:
            raise ValueError("pages must be at most 100")


class Struct(msgspec.Struct):
    category: str
    pages: int = 3


def declare(args=Args):
    return DeclaredArgs("shop", args)


def test_text_becomes_the_declared_types():
    given = {"category": "5", "pages": "7", "full": "yes", "since": "2026-01-31", "tags": ["a", "b"]}
    assert declare().read(given) == Args("5", 7, True, date(2026, 1, 31), ["a", "b"])
    assert declare().read({"category": "x", "tags": "a"}).tags == ["a"]
    assert declare().read({"category": "x", "tags": '["a", "b"]'}).tags == ["a", "b"]
    assert declare().read({"category": "x", "pages": 7}).pages == 7


def test_they_are_declared_as_a_mapping_a_dataclass_or_a_struct():
    for declared in ({"category": str, "pages": 3}, Struct, Args):
        args = declare(declared).read({"category": "lamps"})
        assert (args.category, args.pages) == ("lamps", 3)
    optional = declare({"query": None, "ids": [1, 2]}).read({"query": "x"})
    assert (optional.query, optional.ids) == ("x", [1, 2])
    assert declare({"ids": [1]}).read({"ids": ["4", "5"]}).ids == [4, 5]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"catgory": "x"}, r"argument 'catgory' is unknown to 'shop'\. Did you mean 'category'\?"),
        ({"pages": "1"}, r"argument 'category' of 'shop' is missing\. Add -a category=VALUE"),
        ({"category": "x", "pages": "five"}, "argument 'pages' must be int, got 'five'"),
        ({"category": "x", "full": "maybe"}, "argument 'full' must be True or False"),
        ({"category": "x", "since": "yesterday"}, "argument 'since' must be .*date"),
        ({"category": "x", "sort": "size"}, "argument 'sort' must be .*price"),
        ({"category": ["x", "y"]}, "argument 'category' must be str"),
        ({"category": "x", "pages": "500"}, "args were refused by Args: pages must be at most 100"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(given, says):
    with pytest.raises(InvalidSetting, match=says):
        declare().read(given)


@pytest.mark.parametrize("declared", [5, "category", ["category"], {"a b": str}, {"class": str}, {"_x": 1}])
def test_a_wrong_declaration_is_refused(declared):
    with pytest.raises(InvalidSetting, match="args"):
        Scraper("shop", args=declared)


def test_a_scraper_without_arguments_says_how_to_declare_one():
    with pytest.raises(InvalidSetting, match=r"'shop' has no arguments\. Declare it: .*args=\{'x': str\}"):
        declare(None).read({"x": "1"})
    assert not declare(None) and declare()


def test_what_a_run_stores_is_what_it_had_and_undeclared_names_are_ignored():
    args = declare().read({"category": "x", "since": "2026-01-31"})
    stored = dump_args(args)
    assert msgspec.json.decode(msgspec.json.encode(stored)) == stored
    assert declare().restore(stored) == args
    assert declare().restore({**stored, "gone": 1}) == args


def test_a_page_has_the_arguments():
    shop = Scraper("shop", args={"category": str, "pages": 3})

    @shop.step
    def listing(page):
        yield {"category": page.args.category, "pages": page.args.pages}

    assert shop.parse("", args={"category": "lamps"}).items == [{"category": "lamps", "pages": 3}]
    assert shop.args is None and Scraper("x", args={"pages": 3}).args.pages == 3
    assert shop.replace(rate=None).parse("", args={"category": "x"}).items[0]["category"] == "x"
