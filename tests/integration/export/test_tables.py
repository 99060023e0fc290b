"""Items as rows of a table: the same behaviour on every database."""

import json

import pytest

from shoal.core.errors import InvalidItem, InvalidSetting
from shoal.export.follow import export
from shoal.export.open import open_writer
from tests.unit.export.factories import item, items, source

DUNE = {
    "isbn": "9780441",
    "title": "Dune",
    "price": 9.5,
    "pages": 412,
    "used": True,
    "tags": ["sf", {"a": 1}],
}
EMMA = {"isbn": "9780141", "title": "Emma", "price": 7, "pages": 2**60, "used": None, "tags": []}

TYPES = {
    "sqlite": {
        "isbn": "TEXT",
        "title": "TEXT",
        "price": "REAL",
        "pages": "INTEGER",
        "used": "BOOLEAN",
        "tags": "TEXT",
    },
    "postgresql": {
        "isbn": "text",
        "title": "text",
        "price": "double precision",
        "pages": "bigint",
        "used": "boolean",
        "tags": "jsonb",
    },
}


async def test_items_become_rows_of_typed_columns(database):
    report = await database.put(DUNE, EMMA, key=["isbn"])
    assert report.items == 2
    assert await database.columns() == TYPES[database.name]
    emma, dune = await database.rows(order="isbn")
    assert json.loads(dune.pop("tags")) == DUNE["tags"]
    assert dune == {name: value for name, value in DUNE.items() if name != "tags"}
    assert (emma["price"], emma["pages"], emma["used"], emma["tags"]) == (7.0, 2**60, None, "[]")


async def test_exporting_again_changes_nothing(database):
    await database.put(DUNE, EMMA, key=["isbn"])
    before = await database.rows()
    await database.put(DUNE, EMMA, key=["isbn"])
    assert await database.rows() == before


async def test_a_row_with_an_existing_key_is_replaced_and_others_stay(database):
    await database.put(DUNE, EMMA, key=["isbn"])
    await database.put({**DUNE, "price": 5.5, "used": None}, key=["isbn"])
    rows = {row["isbn"]: row for row in await database.rows()}
    assert (rows[DUNE["isbn"]]["price"], rows[DUNE["isbn"]]["used"]) == (5.5, None)
    assert rows[EMMA["isbn"]]["price"] == 7


async def test_the_last_of_items_with_the_same_key_is_kept(database):
    await database.put(*({"isbn": "1", "n": number} for number in range(1_200)), key=["isbn"])
    assert await database.rows() == [{"isbn": "1", "n": 1_199}]


async def test_a_key_may_have_several_fields(database):
    await database.put({"shop": "a", "n": 1}, {"shop": "a", "n": 2}, {"shop": "b", "n": 1}, key=["shop", "n"])
    await database.put({"shop": "b", "n": 1, "price": 3}, key=["shop", "n"])
    rows = await database.rows(order='"shop", "n"')
    assert [(row["shop"], row["n"], row["price"]) for row in rows] == [
        ("a", 1, None),
        ("a", 2, None),
        ("b", 1, 3),
    ]


async def test_a_key_may_be_in_the_address(database):
    for _ in range(2):
        await export(source(items(DUNE)), open_writer(f"{database.to()}&key=isbn"))
    assert len(await database.rows()) == 1


async def test_without_a_key_every_item_is_its_own_row(database):
    for _ in range(2):
        await database.put({"n": 1}, {"n": 1}, "text")
    rows = await database.rows(order="_item_id")
    assert [(row["_task_id"], row["_item_id"], row["n"], row["value"]) for row in rows] == [
        ("task-1", 1, 1, None),
        ("task-2", 2, 1, None),
        ("task-3", 3, None, "text"),
    ]


async def test_an_item_cannot_forge_its_origin(database):
    await database.put({"n": 1, "_url": "mine"}, {"n": 2, "_url": "https://shop.example/1"}, key=["_url"])
    assert {row["_url"] for row in await database.rows()} == {
        "https://shop.example/1",
        "https://shop.example/2",
    }


async def test_the_envelope_becomes_columns(database):
    await database.put({"n": 1}, key=["n"], envelope=True)
    (row,) = await database.rows()
    assert (row["_url"], row["_step"], row["_task_id"]) == ("https://shop.example/1", "product", "task-1")
    assert str(row["_stored_at"]).replace("T", " ") == "2026-02-15 12:00:00+00:00"


async def test_new_fields_become_columns_of_an_existing_table(database):
    await database.put({"isbn": "1"}, key=["isbn"])
    await database.put({"isbn": "2", "price": 1.5, "new": {"a": 1}}, key=["isbn"])
    one, two = await database.rows()
    assert one == {"isbn": "1", "price": None, "new": None}
    assert two["price"] == 1.5 and json.loads(two["new"]) == {"a": 1}


async def test_a_field_without_a_value_gets_no_column_until_it_has_one(database):
    await database.put({"isbn": "1", "price": None}, key=["isbn"])
    assert list(await database.columns()) == ["isbn"]
    await database.put({"isbn": "1", "price": 3}, key=["isbn"])
    await database.put({"isbn": "1", "price": None}, key=["isbn"])
    assert await database.rows() == [{"isbn": "1", "price": None}]


async def test_only_the_chosen_columns_and_the_key_are_written(database):
    await database.put(DUNE, key=["isbn"], columns=["title"])
    assert await database.rows() == [{"isbn": DUNE["isbn"], "title": "Dune"}]


NASTY = [
    'x"; DROP TABLE books; --',
    "x'); DROP TABLE books; --",
    "",
    " ",
    "select",
    "xmin",
    "rowid",
    "Name",
    "name",
    "a\nb",
    "%s",
    "$1",
    "?",
    ":a",
    "\\",
    "🐟",
    "x" * 200,
    "x" * 201,
    "_task_id",
]


async def test_fields_may_have_any_name(database):
    hostile = {field: number for number, field in enumerate(NASTY)}
    for _ in range(2):
        await database.put({"isbn": "1", **hostile}, key=["isbn"])
    (row,) = await database.rows()
    assert sorted(row.values(), key=str) == sorted(["1", *hostile.values()], key=str)
    assert [row[field] for field in ("select", "a\nb", "🐟")] == [
        hostile[f] for f in ("select", "a\nb", "🐟")
    ]


async def test_a_key_may_have_any_name(database):
    for number, field in enumerate([NASTY[0], "", "xmin", "x" * 200]):
        for _ in range(2):
            await database.put({field: "a", "n": 1}, {field: "b", "n": 1}, key=[field], table=f"t{number}")
        assert len(await database.rows(f"t{number}")) == 2, field


async def test_the_table_may_have_any_name(database):
    name = "x'; DROP TABLE books; -- \" é"
    await database.put({"n": 1}, key=["n"], table=name.replace('"', "%22"))
    (row,) = await database.query('SELECT * FROM "x\'; DROP TABLE books; -- "" é"')
    assert row == {"n": 1}


async def test_values_may_be_anything(database):
    texts = ["'; DROP TABLE books; --", "a\nb\t\\N", "🐟", "NULL", "{}", "x" * 1_000_000, "\x01\x7f"]
    await database.put(*({"n": n, "text": text} for n, text in enumerate(texts)), key=["n"])
    assert [row["text"] for row in await database.rows()] == texts


async def test_a_column_of_mixed_values_holds_text(database):
    await database.put(*({"n": n, "v": v} for n, v in enumerate([1, "one", True, [1], 1.5])), key=["n"])
    assert [row["v"] for row in await database.rows()] == ["1", "one", "true", "[1]", "1.5"]


async def test_items_without_the_key_are_counted_and_skipped(database):
    report = await database.put(
        DUNE, {"title": "no key"}, {"isbn": None}, "text", {"isbn": "x" * 5_000}, key=["isbn"]
    )
    assert (report.items, report.skipped, report.steps) == (1, 4, {"product": 1})
    assert [row["isbn"] for row in await database.rows()] == [DUNE["isbn"]]


async def test_a_key_that_no_item_has_is_rejected_with_a_hint_and_creates_no_table(database):
    with pytest.raises(InvalidSetting, match=r"no item has the field 'isbm'\. Did you mean 'isbn'"):
        await database.put(DUNE, EMMA, key=["isbm"])
    assert not await database.has()


async def test_an_error_among_the_items_leaves_the_rows_unchanged(database):
    await database.put(DUNE, key=["isbn"])

    def broken():
        async def stream():
            for number in range(1_200):
                yield item({"isbn": str(number)}, number)
            if surveyed:
                raise ConnectionError("the queue is gone")
            surveyed.append(True)

        return stream()

    surveyed = []
    with pytest.raises(ConnectionError):
        await export(broken, open_writer(database.to(), key=["isbn"]))
    assert [row["isbn"] for row in await database.rows()] == [DUNE["isbn"]]


async def test_an_error_among_the_first_items_leaves_no_table(database):
    writer = open_writer(database.to(), key=["isbn"])
    writer.write(items(DUNE))
    writer.discard()
    assert not await database.has()


async def test_a_column_of_another_type_is_rejected_with_what_to_type(database):
    await database.query('CREATE TABLE books ("isbn" TEXT PRIMARY KEY, "price" INTEGER)')
    with pytest.raises(
        InvalidSetting, match=r"the column 'price' of type (?i:integer), but the items have text"
    ):
        await database.put({"isbn": "1", "price": "007"}, key=["isbn"])
    assert await database.rows() == []


async def test_a_table_without_a_unique_key_is_rejected_with_what_to_type(database):
    await database.query("CREATE TABLE books (isbn TEXT, title TEXT)")
    with pytest.raises(InvalidSetting, match="CREATE UNIQUE INDEX"):
        await database.put(DUNE, key=["isbn"])


async def test_a_key_that_is_not_a_column_is_rejected(database):
    await database.put({"isbn": "1"}, key=["isbn"])
    with pytest.raises(InvalidSetting, match="'shop' is not a column of"):
        await database.put({"isbn": "1", "shop": "a"}, key=["shop"])


async def test_too_many_columns_are_rejected_with_what_to_do(database):
    many = [{"isbn": str(n), **{f"column {n} {k}": 1 for k in range(1_000)}} for n in range(3)]
    with pytest.raises(InvalidItem, match=r"Export them to a \.jsonl file"):
        await database.put(*many, key=["isbn"])


async def test_live_rows_are_visible_immediately_and_new_columns_are_widened(database):
    writer = open_writer(database.to(), key=["isbn"], live=True)
    steps = [
        {"isbn": "1", "price": 1, "used": True},
        {"isbn": "2", "price": 1.5, "used": True},
        {"isbn": "3", "price": "sold out", "used": "hardly", "new": [1]},
    ]
    with writer:
        for number, one in enumerate(steps, 1):
            writer.write([item(one, number)])
            assert len(await database.rows()) == number
    rows = await database.rows()
    assert [row["price"] for row in rows] in (["1", "1.5", "sold out"], ["1.0", "1.5", "sold out"])
    assert [row["used"] for row in rows] == ["true", "true", "hardly"]


async def test_live_an_existing_column_is_not_changed(database):
    await database.put({"isbn": "1", "price": 1}, key=["isbn"])
    with (
        pytest.raises(InvalidSetting, match="'price'"),
        open_writer(database.to(), key=["isbn"], live=True) as writer,
    ):
        writer.write(items({"isbn": "2", "price": "sold out"}))
    assert len(await database.rows()) == 1


async def test_each_step_has_its_own_table(database):
    mixed = [item({"n": 1}, 1, "listing"), item({"isbn": "1", "n": 2}, 2, "product")]
    report = await export(source(mixed), open_writer(database.to("shop"), by_step=True))
    assert [row["n"] for row in await database.rows("shop_listing")] == [1]
    assert [row["n"] for row in await database.rows("shop_product")] == [2]
    assert report.locations["listing"].endswith("?table=shop_listing")


async def test_a_step_whose_items_lack_the_key_is_skipped_and_the_others_are_written(database):
    mixed = [item({"n": 1}, 1, "listing"), item({"isbn": "1"}, 2, "product")]
    report = await export(source(mixed), open_writer(database.to("shop"), by_step=True, key=["isbn"]))
    assert (report.steps, report.skipped, list(report.locations)) == ({"product": 1}, 1, ["product"])
    assert [row["isbn"] for row in await database.rows("shop_product")] == ["1"]
    assert not await database.has("shop_listing")


async def test_no_items_create_no_table(database):
    assert (await database.put(key=["isbn"])).items == 0
    assert not await database.has()
