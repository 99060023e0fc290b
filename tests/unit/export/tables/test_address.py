"""Table addresses, and what of them may be displayed."""

import sqlite3
from contextlib import closing

import pytest

from shoal.core.errors import InvalidSetting
from shoal.export.open import open_writer
from shoal.export.tables.address import display_location, is_table, read_address
from tests.unit.export.factories import item

SECRET = "hunter2"


def test_table_and_key_are_removed_from_the_driver_url():
    address = read_address(
        "postgresql://me@db:5433/shop?sslmode=require&table=books&key=isbn&key=shop", ["lang"]
    )
    assert address.url == "postgresql://me@db:5433/shop?sslmode=require"
    assert (address.scheme, address.table, address.key) == ("postgresql", "books", ("isbn", "shop", "lang"))


def test_the_address_may_ask_for_where_and_when_an_item_was_found(tmp_path):
    table = f"sqlite:///{tmp_path}/items.db?table=books&envelope=true"
    with open_writer(table) as writer:
        writer.write([item({"n": 1}, step="book")])
    with closing(sqlite3.connect(tmp_path / "items.db")) as database:
        database.row_factory = sqlite3.Row
        row = dict(database.execute("SELECT * FROM books").fetchone())
    assert (row["n"], row["_step"]) == (1, "book") and row["_stored_at"]
    with pytest.raises(InvalidSetting, match="envelope must be True or False"):
        read_address(table.replace("true", "perhaps"))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///shop.db?table=books", "shop.db"),
        ("sqlite:////var/shop.db?table=books", "/var/shop.db"),
        ("sqlite:///my%20shop.db?table=books", "my shop.db"),
    ],
)
def test_sqlite_paths_are_written_like_those_of_a_queue(text, path):
    assert read_address(text).path == path


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{SECRET}@db/shop?table=books",
        f"postgresql://me@db/shop?table=books&password={SECRET}",
        f"postgres://me:x%40{SECRET}@db/shop?table=books",
    ],
)
def test_a_password_is_never_displayed(text):
    assert SECRET not in display_location(text)
    assert SECRET not in read_address(text).location
    assert display_location(text).endswith("@db/shop?table=books")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"postgresql://me:{SECRET}@db/shop", r"Write: postgresql://me:…@db/shop\?table=items"),
        ("sqlite:///shop.db", r"Write: sqlite:///shop\.db\?table=items"),
        ("sqlite:///?table=x", "sqlite:///items.db"),
        ("sqlite://shop.db?table=x", "has no file"),
        (f"mysql://me:{SECRET}@db/shop?table=x", "mysql://… is not supported. Use a file"),
        (f"postgresql://me:{SECRET}@[db/shop?table=x", "Write it as postgresql://"),
        (f"postgresql://me:{SECRET}/x@db/shop?table=x", "in a password, write / as %2F"),
        (f"postgresql://me:1/{SECRET}@db/shop?table=x", "in a password, write / as %2F"),
        (f"postgresql://me:1#{SECRET}@db/shop?table=x", "in a password, write / as %2F"),
        (f"postgresql://me:1?{SECRET}@db/shop?table=x", "in a password, write / as %2F"),
        (f"postgresql://me:p@w/{SECRET}@db/shop?table=x", "in a password, write / as %2F"),
    ],
)
def test_an_invalid_address_is_rejected_with_an_example_and_without_the_password(text, said):
    with pytest.raises(InvalidSetting, match=said) as caught:
        read_address(text)
    assert SECRET not in str(caught.value)


def test_a_file_may_have_an_at_sign_in_its_name():
    assert read_address("sqlite:///me@home.db?table=x").path == "me@home.db"


def test_a_file_is_not_a_table():
    assert not is_table("books.csv")
    assert display_location("books.csv") == "books.csv"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hdfs://name/items.jsonl", "is not supported. Use a file"),
        ("file:///tmp/items.jsonl", "write the path of the file alone"),
    ],
)
def test_other_stores_and_file_urls_are_refused_with_the_way_that_works(text, said):
    with pytest.raises(InvalidSetting) as caught:
        read_address(text)
    assert said in str(caught.value)
