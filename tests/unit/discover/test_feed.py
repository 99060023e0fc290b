"""From sources to one stream of tasks."""

from shoal.core.errors import InvalidTask
from shoal.core.model import Task
from shoal.discover.feed import Feed
from shoal.discover.routing import Routes, Rule
from shoal.discover.source import Refusal


class Listed:
    """A source without a file."""

    def __init__(self, *found):
        self.found, self.where = found, ""

    def __iter__(self):
        for number, found in enumerate(self.found, 1):
            self.where = f"list:{number}"
            yield found


class Awaited(Listed):
    """The same as an asynchronous source."""

    __iter__ = None

    async def __aiter__(self):
        for found in Listed.__iter__(self):
            yield found


def task(number, **fields):
    return Task(url=f"https://a.test/{number}", **fields)


async def collect(feed):
    return [task async for task in feed]


async def test_tasks_of_all_sources_come_in_order_and_refusals_are_reported():
    refusal = Refusal("x:1", "junk", "no")
    told = []
    feed = Feed(Listed(task(1), refusal), Awaited(task(2)), on_refusal=told.append)
    assert await collect(feed) == [task(1), task(2)]
    assert told == [refusal]
    assert (feed.passed, feed.refused) == (2, 1)


async def test_tasks_are_routed_on_the_way():
    feed = Feed(Listed(task(1), task(2)), routes=Routes([Rule(path="/2", priority=9)]))
    assert [task.priority for task in await collect(feed)] == [0, 9]


async def test_a_step_that_the_scraper_lacks_is_refused_with_what_was_meant():
    told = []
    feed = Feed(
        Listed(task(1, step="lsiting"), task(2, step="book")),
        steps=["listing", "book"],
        on_refusal=told.append,
    )
    assert await collect(feed) == [task(2, step="book")]
    assert told == [
        Refusal("list:1", "https://a.test/1", "no step is called 'lsiting'. Did you mean 'listing'?")
    ]


async def test_what_the_queue_refuses_is_reported_with_its_position():
    told = []
    feed = Feed(Listed(Refusal("x:1", "junk", "no"), task(1), task(2)), on_refusal=told.append)
    position = 0
    async for each in feed:
        if each == task(2):
            feed.invalid(position, InvalidTask(each, "payload is not JSON"))
        position += 1
    assert told[-1] == Refusal("list:3", "https://a.test/2", "payload is not JSON")
    assert (feed.passed, feed.refused) == (1, 2)


async def test_a_queue_that_reads_ahead_gets_no_wrong_place():
    told = []
    feed = Feed(Listed(task(1), task(2)), on_refusal=told.append)
    await collect(feed)
    feed.invalid(0, InvalidTask(task(1), "no"))
    assert told[-1].where == "task 1"
