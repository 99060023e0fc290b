"""CSV files, and formula injection."""

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidItem
from shoal.export.files.csv import escape_formula
from shoal.export.follow import export
from shoal.export.open import open_writer
from tests.unit.export.factories import items, source


def read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


async def test_the_columns_are_those_of_all_items_in_order_of_appearance(tmp_path):
    path = tmp_path / "items.csv"
    await export(source(items({"b": 1}, {"a": 2, "b": 3}, {"c": None})), open_writer(path))
    assert read(path) == [["b", "a", "c"], ["1", "", ""], ["3", "2", ""], ["", "", ""]]


async def test_values_are_written_as_in_json(tmp_path):
    path = tmp_path / "items.csv"
    data = {"t": True, "n": None, "i": -5, "f": -0.5, "s": 'a,"b"\nc', "l": [1, "ä"], "m": {"k": None}}
    await export(source(items(data)), open_writer(path))
    assert read(path)[1] == ["true", "", "-5", "-0.5", 'a,"b"\nc', '[1,"ä"]', '{"k":null}']


async def test_an_item_that_is_not_a_mapping_has_a_column_called_value(tmp_path):
    path = tmp_path / "items.csv"
    await export(source(items("lamp", 3)), open_writer(path))
    assert read(path) == [["value"], ["lamp"], ["3"]]


async def test_without_items_there_is_no_header_unless_columns_are_chosen(tmp_path, caplog):
    path, chosen = tmp_path / "items.csv", tmp_path / "chosen.csv"
    await export(source([]), open_writer(path))
    assert path.read_bytes() == b""
    assert caplog.messages == [f"{path} has no header, because no item has a column"]
    await export(source([]), open_writer(chosen, columns=["name", "price"]))
    assert read(chosen) == [["name", "price"]] and len(caplog.messages) == 1
    await export(source(items({"name": "lamp"})), open_writer(path, existing="append"))
    assert read(path) == [["name"], ["lamp"]]


async def test_the_envelope_comes_first(tmp_path):
    path = tmp_path / "items.csv"
    await export(source(items({"n": 1})), open_writer(path, envelope=True))
    assert read(path)[0] == ["_url", "_step", "_task_id", "_stored_at", "n"]
    assert read(path)[1] == ["https://shop.example/1", "product", "task-1", "2026-02-15T12:00:00+00:00", "1"]


async def test_only_the_chosen_columns_are_written(tmp_path):
    path = tmp_path / "items.csv"
    writer = open_writer(path, columns=["price", "name"])
    await export(source(items({"name": "lamp", "colour": "red"}, {"price": 2})), writer)
    assert read(path) == [["price", "name"], ["", "lamp"], ["2", ""]]


DANGEROUS = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]


@pytest.mark.parametrize("start", DANGEROUS)
@pytest.mark.parametrize("before", ["", " ", "\u00a0 ", "\ufeff", "\0", "\u3000", "\u00ad", "\x1f"])
def test_a_text_that_starts_like_a_formula_is_escaped(start, before):
    text = f"{before}{start}cmd|' /C calc'!A0"
    assert escape_formula(text) == f"'{text}"


@given(st.text())
def test_exactly_the_texts_that_start_like_a_formula_are_escaped(text):
    safe = escape_formula(text)
    assert not safe.startswith(tuple(DANGEROUS))
    if ";" not in text and "\t" not in text:
        assert safe in (text, f"'{text}")


@given(st.text(alphabet="x;\t =-,"))
def test_no_part_starts_like_a_formula_where_cells_are_split_at_semicolons_or_tabs(text):
    parts = re.split("[;\t]", escape_formula(text))
    assert not [part for part in parts if part.strip().startswith(("=", "-"))]
    assert "'".join(parts).replace("'", "") == text.replace(";", "").replace("\t", "")


def test_a_formula_after_a_semicolon_or_a_tab_is_escaped():
    assert escape_formula("x;=cmd|'/C calc'!A0") == "x;'=cmd|'/C calc'!A0"
    assert escape_formula("x\t=1+1") == "x\t'=1+1"
    assert escape_formula("a; b;c\td - e") == "a; b;c\td - e"


async def test_column_names_are_escaped_too(tmp_path):
    path = tmp_path / "items.csv"
    await export(source(items({"=1+1": "@SUM(1)", "list": ["-1"]})), open_writer(path))
    assert read(path) == [["'=1+1", "list"], ["'@SUM(1)", '["-1"]']]


async def test_raw_escapes_nothing(tmp_path):
    path = tmp_path / "items.csv"
    await export(source(items({"=1+1": "@SUM(1)"})), open_writer(path, raw=True))
    assert read(path) == [["=1+1"], ["@SUM(1)"]]


def test_a_new_column_after_the_header_is_an_error_and_not_lost(tmp_path):
    with (
        pytest.raises(InvalidItem, match="has the column 'new'"),
        open_writer(tmp_path / "items.csv") as writer,
    ):
        writer.write(items({"n": 1}))
        writer.write(items({"n": 2, "new": 3}))


async def test_items_with_too_many_columns_are_rejected_with_what_to_do(tmp_path):
    many = items(*({f"column {number}": 1} for number in range(10_001)))
    with pytest.raises(InvalidItem, match=r"10,000 columns.*\.jsonl"):
        await export(source(many), open_writer(tmp_path / "items.csv"))
    assert list(tmp_path.iterdir()) == []
