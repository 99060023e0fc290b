"""Parquet, and the inferred column types."""

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidItem
from shoal.export.files import parquet as module
from shoal.export.kinds import Kind, common_kind, kind_of
from shoal.export.open import open_writer
from shoal.export.stream import export
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


@given(st.sampled_from(Kind), st.sampled_from(Kind), st.sampled_from(Kind))
def test_the_order_of_values_does_not_change_the_kind(one, two, three):
    assert common_kind(one, two) is common_kind(two, one)
    assert common_kind(common_kind(one, two), three) is common_kind(one, common_kind(two, three))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"),
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        ),
        min_size=1,
        max_size=6,
    )
)
async def test_any_items_can_be_written(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("parquet") / "items.parquet"
    await export(source(items(*data)), open_writer(path))
    assert pq.read_table(path).num_rows == len(data)


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
