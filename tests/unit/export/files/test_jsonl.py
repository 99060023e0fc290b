"""JSON lines."""

import msgspec
import pytest

from shoal.export.open import open_writer
from tests.unit.export.factories import item, items


@pytest.mark.parametrize(
    "data",
    [{"b": 1, "a": [1, {"c": None}]}, [1, 2], "text", 1.5, None, {"line": "one\ntwo\u2028\x85"}, {"é": "🐟"}],
)
def test_an_item_is_one_line_and_is_read_back_unchanged(tmp_path, data):
    path = tmp_path / "items.jsonl"
    with open_writer(path) as writer:
        writer.write(items(data))
    line, end = path.read_bytes().split(b"\n")
    assert end == b""
    assert msgspec.json.decode(line) == data


def test_the_order_of_items_and_of_their_fields_is_kept(tmp_path):
    path = tmp_path / "items.jsonl"
    with open_writer(path) as writer:
        writer.write(items({"b": 1, "a": 2}, {"a": 3, "b": 4}))
        writer.write([])
        writer.write(items({"c": 5}))
    assert path.read_text() == '{"b":1,"a":2}\n{"a":3,"b":4}\n{"c":5}\n'


def test_the_envelope_has_the_origin_of_an_item(tmp_path):
    path = tmp_path / "items.jsonl"
    with open_writer(path, envelope=True) as writer:
        writer.write([item({"url": "of the item"}, 7)])
    assert msgspec.json.decode(path.read_bytes()) == {
        "url": "https://shop.example/7",
        "step": "product",
        "task_id": "task-7",
        "stored_at": "2026-02-15T12:00:00Z",
        "data": {"url": "of the item"},
    }
