"""A file of items is generated while it is sent, and never held in memory as a whole."""

from datetime import UTC, datetime

import pytest

from shoal.core.errors import InvalidItem
from shoal.core.model import StoredItem
from shoal.export.follow import BATCH
from shoal.web.api.lists import download

COUNT = 20 * BATCH


class ItemSource:
    """Many items, and a count of those that were read."""

    def __init__(self, data=lambda number: {"title": f"Book {number}"}):
        self.read_count, self._data = 0, data

    async def items(self):
        for number in range(1, COUNT + 1):
            self.read_count += 1
            yield StoredItem(
                id=number,
                task_id="aa",
                url=None,
                step="book",
                data=self._data(number),
                stored_at=datetime.now(UTC),
            )


async def test_the_first_lines_are_sent_before_the_last_items_are_read():
    source = ItemSource()
    chunks = await download(source.items, "jsonl")
    first = await anext(chunks)
    assert first.count(b"\n") == BATCH
    assert source.read_count == BATCH
    sizes = [len(first), *[len(chunk) async for chunk in chunks]]
    assert max(sizes) < 2 * len(first)
    assert source.read_count == COUNT


async def test_csv_reads_the_items_twice_and_is_sent_in_chunks():
    source = ItemSource(lambda number: {"title": "b", **({"late": 1} if number == COUNT else {})})
    chunks = [chunk async for chunk in await download(source.items, "csv")]
    assert source.read_count == 2 * COUNT
    assert chunks[0].startswith(b"title,late\r\n")
    assert sum(chunk.count(b"\n") for chunk in chunks) == COUNT + 1
    assert max(map(len, chunks)) < 2 * len(chunks[0])


async def test_too_many_columns_raise_before_anything_is_sent():
    source = ItemSource(lambda number: {f"{number}-{part}": 1 for part in range(20)})
    with pytest.raises(InvalidItem, match="columns"):
        await download(source.items, "csv")
