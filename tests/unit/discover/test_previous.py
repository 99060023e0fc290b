"""Seeds from a previous run."""

from datetime import UTC, datetime

import pytest

from shoal.core.model import MINUTE, DeadLetter, StoredItem, Task
from shoal.discover.previous import DeadTasks, ItemTasks
from shoal.discover.source import Refusal

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


def letter(number=1, error="HttpStatus: status 500", **fields):
    task = Task(**{"url": f"https://a.test/{number}", **fields})
    return DeadLetter(id=f"d{number}", task=task, attempts=3, error=error, history=(), buried_at=NOON)


def item(data, number=1, url="https://a.test/list/"):
    return StoredItem(id=number, task_id="t", url=url, step="listing", data=data, stored_at=NOON)


async def stream(*things):
    for thing in things:
        yield thing


async def collect(source):
    return [found async for found in source]


async def test_dead_letters_become_the_tasks_that_they_were():
    task = {"step": "book", "payload": {"n": 1}, "partition": "CA", "priority": 4, "ttl": MINUTE, "depth": 2}
    source = DeadTasks(stream(letter(**task, delay=MINUTE)))
    assert await collect(source) == [Task(url="https://a.test/1", **task)]
    assert source.where == "dead letter d1"


async def test_a_field_of_an_item_holds_the_url():
    source = ItemTasks(stream(item({"link": "/book/1", "title": "One"})), step="book", field="link")
    assert await collect(source) == [Task(url="https://a.test/book/1", step="book")]


async def test_a_field_may_hold_several_urls_and_the_item_go_along():
    data = {"links": ["https://a.test/1", "2", 5, ""]}
    source = ItemTasks(stream(item(data)), step="book", field="links", payload=True)
    assert await collect(source) == [
        Task(url="https://a.test/1", step="book", payload=data),
        Task(url="https://a.test/list/2", step="book", payload=data),
    ]


async def test_a_whole_item_is_a_payload():
    source = ItemTasks(stream(item({"user": "ann"}, url=None)), step="profile")
    assert await collect(source) == [Task(step="profile", payload={"user": "ann"})]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"title": "x"}, "its field 'link' holds no URL"),
        ({"link": None}, "its field 'link' holds no URL"),
        ({"link": []}, "its field 'link' holds no URL"),
        ({"link": "ftp://a.test/"}, "its scheme is 'ftp'; only http and https can be fetched"),
        (["x"], "the item is not an object with fields"),
    ],
)
async def test_an_item_that_gives_no_task_is_refused(data, reason):
    source = ItemTasks(stream(item(data, 17)), step="book", field="link")
    (refusal,) = await collect(source)
    assert isinstance(refusal, Refusal)
    assert (refusal.where, refusal.reason) == ("item 17", reason)
