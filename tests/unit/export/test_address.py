"""Addresses of tables, and what of them may be seen."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.export.address import is_table, read_address, shown_place

SECRET = "hunter2"


def test_the_table_and_its_key_are_taken_out_of_what_the_driver_is_told():
    address = read_address(
        "postgresql://me@db:5433/shop?sslmode=require&table=books&key=isbn&key=shop", ["lang"]
    )
    assert address.url == "postgresql://me@db:5433/shop?sslmode=require"
    assert (address.scheme, address.table, address.key) == ("postgresql", "books", ("isbn", "shop", "lang"))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///shop.db?table=books", "shop.db"),
        ("sqlite:////var/shop.db?table=books", "/var/shop.db"),
        ("sqlite:///my%20shop.db?table=books", "my shop.db"),
    ],
)
def test_a_file_is_named_as_for_a_queue(text, path):
    assert read_address(text).path == path


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{SECRET}@db/shop?table=books",
        f"postgresql://me@db/shop?table=books&password={SECRET}",
        f"postgres://me:x%40{SECRET}@db/shop?table=books",
    ],
)
def test_a_password_is_never_shown(text):
    assert SECRET not in shown_place(text)
    assert SECRET not in read_address(text).place
    assert shown_place(text).endswith("@db/shop?table=books")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"postgresql://me:{SECRET}@db/shop", r"Write: postgresql://me:…@db/shop\?table=items"),
        ("sqlite:///shop.db", r"Write: sqlite:///shop\.db\?table=items"),
        ("sqlite:///?table=x", "sqlite:///items.db"),
        ("sqlite://shop.db?table=x", "names no file"),
        (f"mysql://me:{SECRET}@db/shop?table=x", "no database called 'mysql'"),
        (f"postgresql://me:{SECRET}@[db/shop?table=x", "Write it as postgresql://"),
        (f"postgresql://me:{SECRET}/x@db/shop?table=x", "in a password / is %2F"),
        (f"postgresql://me:1/{SECRET}@db/shop?table=x", "in a password / is %2F"),
        (f"postgresql://me:1#{SECRET}@db/shop?table=x", "in a password / is %2F"),
        (f"postgresql://me:1?{SECRET}@db/shop?table=x", "in a password / is %2F"),
        (f"postgresql://me:p@w/{SECRET}@db/shop?table=x", "in a password / is %2F"),
    ],
)
def test_an_address_that_is_none_is_answered_with_one_and_without_the_password(text, said):
    with pytest.raises(InvalidSetting, match=said) as caught:
        read_address(text)
    assert SECRET not in str(caught.value)


def test_a_file_may_have_an_at_sign_in_its_name():
    assert read_address("sqlite:///me@home.db?table=x").path == "me@home.db"


def test_a_file_is_no_table():
    assert not is_table("books.csv")
    assert shown_place("books.csv") == "books.csv"
