"""A file of items is made while it is sent, and never held whole."""

from datetime import UTC, datetime

import pytest

from shoal.core.errors import InvalidItem
from shoal.core.model import StoredItem
from shoal.export.stream import BATCH
from shoal.web.download import download

COUNT = 20 * BATCH


class Shelf:
    """Many items, and how many of them were taken."""

    def __init__(self, data=lambda number: {"title": f"Book {number}"}):
        self.taken, self._data = 0, data

    async def items(self):
        for number in range(1, COUNT + 1):
            self.taken += 1
            yield StoredItem(
                id=number,
                task_id="aa",
                url=None,
                step="book",
                data=self._data(number),
                stored_at=datetime.now(UTC),
            )


async def test_the_first_lines_are_sent_before_the_last_items_are_read():
    shelf = Shelf()
    chunks = await download(shelf.items, "jsonl")
    first = await anext(chunks)
    assert first.count(b"\n") == BATCH
    assert shelf.taken == BATCH
    sizes = [len(first), *[len(chunk) async for chunk in chunks]]
    assert max(sizes) < 2 * len(first)
    assert shelf.taken == COUNT


async def test_a_table_is_read_twice_and_sent_in_parts():
    shelf = Shelf(lambda number: {"title": "b", **({"late": 1} if number == COUNT else {})})
    chunks = [chunk async for chunk in await download(shelf.items, "csv")]
    assert shelf.taken == 2 * COUNT
    assert chunks[0].startswith(b"title,late\r\n")
    assert sum(chunk.count(b"\n") for chunk in chunks) == COUNT + 1
    assert max(map(len, chunks)) < 2 * len(chunks[0])


async def test_what_does_not_fit_into_a_table_is_said_before_anything_is_sent():
    shelf = Shelf(lambda number: {f"{number}-{part}": 1 for part in range(20)})
    with pytest.raises(InvalidItem, match="columns"):
        await download(shelf.items, "csv")
