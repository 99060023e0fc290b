"""Parquet, and the inferred column types."""

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import InvalidItem
from shoal.export.files import parquet as module
from shoal.export.files.nested import common_type, type_of
from shoal.export.follow import export
from shoal.export.open import open_writer
from shoal.export.table import Kind, common_kind, kind_of
from tests.unit.export.factories import NOON, items, source


async def test_columns_have_the_narrowest_kind_that_holds_their_values(tmp_path):
    path = tmp_path / "items.parquet"
    data = [
        {"whole": 1, "number": 1, "text": 1, "truth": True, "empty": None, "list": [1]},
        {"whole": 2**60, "number": 1.5, "text": "one", "truth": None, "list": {"a": 1}},
    ]
    await export(source(items(*data)), open_writer(path))
    table = pq.read_table(path)
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "whole": "int64",
        "number": "double",
        "text": "string",
        "truth": "bool",
        "empty": "string",
        "list": "string",
    }
    assert table.to_pylist() == [
        {"whole": 1, "number": 1.0, "text": "1", "truth": True, "empty": None, "list": "[1]"},
        {"whole": 2**60, "number": 1.5, "text": "one", "truth": None, "empty": None, "list": '{"a":1}'},
    ]


async def test_without_items_a_file_has_the_chosen_columns_or_none(tmp_path, caplog):
    path, chosen = tmp_path / "none.parquet", tmp_path / "chosen.parquet"
    await export(source([]), open_writer(path))
    assert "none.parquet has no columns, because there is no item" in caplog.text
    await export(source([]), open_writer(chosen, columns=["name", "price"]))
    assert [pq.read_table(file).column_names for file in (path, chosen)] == [[], ["name", "price"]]
    assert pq.read_table(path).num_rows == 0


async def test_items_without_a_field_are_rows_all_the_same(tmp_path):
    await export(source(items({}, {})), open_writer(tmp_path / "items.parquet"))
    assert pq.read_table(tmp_path / "items.parquet").to_pylist() == [{"value": None}] * 2


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2**53], Kind.INT),
        ([1, 2**63 - 1], Kind.BIGINT),
        ([1, 2**63], Kind.TEXT),
        ([1, 0.5], Kind.FLOAT),
        ([2**53 + 1, 0.5], Kind.TEXT),
        ([True, 1], Kind.TEXT),
        ([None, True], Kind.BOOL),
        ([1, "1"], Kind.TEXT),
        ([None], Kind.NULL),
        ([[], {}], Kind.JSON),
        ([[], "text"], Kind.TEXT),
        ([NOON], Kind.TIMESTAMP),
        ([NOON, 1], Kind.TEXT),
    ],
)
def test_kinds_widen_without_losing_a_digit(values, kind):
    found = Kind.NULL
    for value in values:
        found = common_kind(found, kind_of(value))
    assert found is kind


async def test_row_groups_are_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GROUP_ROWS", 1_000)
    path = tmp_path / "items.parquet"
    await export(source(items(*({"n": n} for n in range(4_200)))), open_writer(path))
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [1_000] * 4 + [200]


async def test_the_envelope_and_chosen_columns_are_written(tmp_path):
    path = tmp_path / "items.parquet"
    writer = open_writer(path, envelope=True, columns=["price", "_url"])
    await export(source(items({"name": "lamp", "price": 2}, {"name": "pot"})), writer)
    assert pq.read_table(path).to_pylist() == [
        {"price": 2, "_url": "https://shop.example/1"},
        {"price": None, "_url": "https://shop.example/2"},
    ]


async def test_stored_at_is_a_timestamp(tmp_path):
    path = tmp_path / "items.parquet"
    await export(source(items({"n": 1})), open_writer(path, envelope=True))
    table = pq.read_table(path)
    assert str(table.schema.field("_stored_at").type) == "timestamp[us, tz=UTC]"
    assert table.column("_stored_at").to_pylist() == [NOON]


@pytest.mark.parametrize("late", [{"n": "two"}, {"n": 1, "new": 2}], ids=["kind", "column"])
def test_a_value_of_another_kind_is_an_error_and_not_lost(tmp_path, late):
    with (
        pytest.raises(InvalidItem, match="Run the export again"),
        open_writer(tmp_path / "items.parquet") as writer,
    ):
        writer.write(items({"n": 1}))
        writer.write(items(late))
    assert list(tmp_path.iterdir()) == []


async def written(tmp_path, *data, **options):
    path = tmp_path / "items.parquet"
    await export(source(items(*data)), open_writer(path, **options))
    table = pq.read_table(path)
    return {field.name: str(field.type) for field in table.schema}, table.to_pylist()


async def test_lists_and_mappings_are_typed(tmp_path):
    data = [
        {"tags": ["a", "b"], "scores": [1, 2], "author": {"name": "X", "born": 1900}, "parts": [{"n": 1}]},
        {
            "tags": [],
            "scores": [0.5, None],
            "author": {"name": None, "books": ["Y"]},
            "parts": [{"n": 2}, {}],
        },
        {"tags": None, "scores": None, "author": None, "parts": []},
    ]
    types, rows = await written(tmp_path, *data)
    assert types == {
        "tags": "list<element: string>",
        "scores": "list<element: double>",
        "author": "struct<name: string, born: int64, books: list<element: string>>",
        "parts": "list<element: struct<n: int64>>",
    }
    assert rows[0] == data[0] | {"author": {"name": "X", "born": 1900, "books": None}}
    assert rows[1]["parts"] == [{"n": 2}, {"n": None}]
    assert rows[2] == data[2]


@pytest.mark.parametrize(
    ("data", "why", "texts"),
    [
        (([1], "one"), "it holds lists beside text", ["[1]", "one"]),
        (("one", [1]), "it holds text beside lists", ["one", "[1]"]),
        (([1], {"a": 1}), "it holds lists beside mappings", ["[1]", '{"a":1}']),
        (({"a": 1}, 7), "it holds mappings beside integers", ['{"a":1}', "7"]),
        (({f"k{n}": n for n in range(201)},), "more than 200 fields", None),
    ],
)
async def test_a_mixture_becomes_json_text_and_is_said(tmp_path, caplog, data, why, texts):
    types, rows = await written(tmp_path, *({"x": one} for one in data))
    assert types == {"x": "string"}
    assert texts is None or [row["x"] for row in rows] == texts
    assert why in caplog.text
    assert "x is written as JSON text" in caplog.text


async def test_a_list_nested_too_deep_becomes_text_there(tmp_path, caplog):
    value = 1
    for _ in range(30):
        value = [value]
    types, _ = await written(tmp_path, {"x": value})
    assert types["x"].count("list<") == 8
    assert "nested deeper than 8 levels" in caplog.text


async def test_a_mapping_without_fields_is_text(tmp_path):
    types, rows = await written(tmp_path, {"x": {}, "y": [{}]})
    assert (types, rows) == ({"x": "string", "y": "list<element: string>"}, [{"x": "{}", "y": ["{}"]}])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=15)  # each writes a file
@given(st.lists(JSON, min_size=1, max_size=5))
async def test_any_nested_items_can_be_written(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("parquet") / "items.parquet"
    await export(source(items(*({"x": one} for one in data))), open_writer(path))
    assert pq.read_table(path).num_rows == len(data)


@given(JSON, JSON, JSON)
def test_the_order_of_values_does_not_change_the_type(one, two, three):
    a, b, c = map(type_of, (one, two, three))
    assert (
        common_type(common_type(a, b), c)
        == common_type(a, common_type(b, c))
        == common_type(c, common_type(b, a))
    )
