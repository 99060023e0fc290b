"""A step: run to completion, its results buffered and sorted."""

import functools
import inspect
import traceback
from collections import Counter
from dataclasses import dataclass

import pytest

from shoal.core.errors import InvalidInput, InvalidItem, InvalidTask
from shoal.core.http import Response
from shoal.core.model import Reject, Task
from shoal.scrape import harvest as module
from shoal.scrape.hooks import FailedTask
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper

URL = "https://example.com/"
HTML = b"<h1>One</h1><a href=/2>2</a><a href=https://other.example/>o</a>"


@dataclass
class Book:
    title: str
    price: float


def page_of(**task):
    return Page(Response(url=URL, status=200, body=HTML), Task(url=URL, step="main", **task))


def step_of(function, **options):
    return Scraper("books").step(**options)(function)


async def harvest_of(function, subject=None, **options):
    step = step_of(function, name="main", **options)
    subject = subject or page_of()
    return await step.harvest_async(subject) if step.is_async else step.harvest(subject)


def sync_generator(page):
    yield {"title": page.text("h1")}
    yield None
    yield page.follow("/2")


async def async_generator(page):
    yield {"title": page.text("h1")}
    yield None
    yield page.follow("/2")


def returns_list(page):
    return [{"title": page.text("h1")}, None, page.follow("/2")]


async def coroutine_returns_tuple(page):
    return ({"title": page.text("h1")}, page.follow("/2"))


def returns_generator(page):
    return (thing for thing in ({"title": "One"}, page.follow("/2")))


async def coroutine_returns_async_generator(page):
    return async_generator(page)


@functools.wraps(async_generator)
def wrapped(page):
    return async_generator(page)


class Callable:
    async def __call__(self, page):
        return [{"title": "One"}, page.follow("/2")]


KINDS = [
    sync_generator,
    async_generator,
    returns_list,
    coroutine_returns_tuple,
    returns_generator,
    coroutine_returns_async_generator,
    wrapped,
    functools.partial(async_generator),
    Callable(),
]


@pytest.mark.parametrize("function", KINDS, ids=lambda function: getattr(function, "__name__", "object"))
async def test_a_step_may_be_any_kind_of_function(function):
    harvest = await harvest_of(function)
    assert harvest.items == [{"title": "One"}]
    assert [task.url for task in harvest.follow] == ["https://example.com/2"]


async def test_a_step_may_give_nothing_one_item_one_task_or_one_reject():
    assert (await harvest_of(lambda page: None)) == module.Harvest()
    assert (await harvest_of(lambda page: {"a": 1})).items == [{"a": 1}]
    assert (await harvest_of(lambda page: Book("A", 1.0))).items == [{"title": "A", "price": 1.0}]
    assert len((await harvest_of(lambda page: page.follow("/2"))).follow) == 1
    reject = Reject(data={"a": 1}, reason="too small")
    assert (await harvest_of(lambda page: reject)).rejects == [reject]


async def test_items_are_checked_and_rejects_kept():
    def books(page):
        yield {"title": "A", "price": "1.5"}
        yield {"title": "B", "price": "free"}
        yield Reject(data={"title": "C"}, reason="not a book")

    harvest = await harvest_of(books, item=Book)
    assert harvest.items == [{"title": "A", "price": 1.5}]
    assert [reject.reason for reject in harvest.rejects] == [
        "price: Expected `float`, got `str` ('free')",
        "not a book",
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_step_that_raises_half_way_gives_nothing(kind):
    def sync_step(page):
        yield {"a": 1}
        raise KeyError("half-way")

    async def async_step(page):
        yield {"a": 1}
        raise KeyError("half-way")

    with pytest.raises(KeyError, match="half-way"):
        await harvest_of(sync_step if kind == "sync" else async_step)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "step 'main' yielded a value of type str"),
        (5, "step 'main' yielded a value of type int"),
        ([{"a": 1}], "step 'main' yielded a list; yield its elements one by one"),
        (Book, "step 'main' yielded a value of type type"),
    ],
)
async def test_what_is_neither_item_nor_task_is_named_with_its_step(value, words):
    async def wrong(page):
        yield value

    with pytest.raises(InvalidItem, match=words):
        await harvest_of(wrong)


async def test_an_async_step_that_is_stopped_by_a_wrong_yield_is_closed():
    closed = []

    async def wrong(page):
        try:
            yield 5
        finally:
            closed.append(True)

    with pytest.raises(InvalidItem):
        await harvest_of(wrong)
    assert closed == [True]


async def test_a_plain_function_that_returns_a_coroutine_must_be_async():
    def forgot(page):
        return coroutine_returns_tuple(page)

    result = []
    with pytest.raises(InvalidItem, match="step 'main' returned an awaitable; define it with 'async def'"):
        await harvest_of(lambda page: result.append(forgot(page)) or result[0])
    result[0].close()


async def test_a_step_without_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(module, "MAX_RESULTS", 100)

    def find_endless(page):
        while True:
            yield {"a": 1}

    with pytest.raises(InvalidItem, match="step 'main' yielded more than 100 times for one page"):
        await harvest_of(find_endless)


async def test_follow_up_tasks_take_depth_priority_and_partition_from_their_parent():
    def both(page):
        yield page.follow("/2", priority=0)
        yield Task(url="https://EXAMPLE.com/3")
        yield Task(url="https://example.com/4", priority=7, partition="CA", depth=9)

    harvest = await harvest_of(both, page_of(depth=2, priority=5, partition="TX"))
    assert [(task.url, task.depth, task.priority, task.partition) for task in harvest.follow] == [
        ("https://example.com/2", 3, 0, "TX"),
        ("https://example.com/3", 3, 5, "TX"),
        ("https://example.com/4", 9, 7, "CA"),
    ]


async def test_refused_links_are_counted_by_reason():
    def everything(page):
        for link in page.links():
            yield page.follow(link)
        yield page.follow("mailto:a@b.c")

    harvest = await harvest_of(everything)
    assert [task.url for task in harvest.follow] == ["https://example.com/2"]
    assert harvest.dropped == Counter({"out of scope": 1, "not a web link": 1})


async def test_a_task_for_a_step_that_is_not_there_is_an_error_with_a_hint():
    with pytest.raises(InvalidTask, match=r"'books' has no step 'mian'. Did you mean 'main'"):
        await harvest_of(lambda page: page.follow("/2", step="mian"))


async def test_a_task_that_cannot_be_queued_is_an_error():
    with pytest.raises(InvalidTask, match="Cannot fetch URL"):
        await harvest_of(lambda page: Task(url="http://not a url"))


async def test_a_step_without_a_page_is_handed_its_task():
    async def followers(task):
        yield {"user": task.payload["user"]}
        yield Task(payload={"user": "b"}, step="main")
        yield Task(url="https://api.example/b", step="main")

    task = Task(payload={"user": "a"}, step="main", depth=1, partition="p")
    harvest = await harvest_of(followers, task, fetch=None)
    assert harvest.items == [{"user": "a"}]
    assert [(task.url, task.depth, task.partition) for task in harvest.follow] == [
        (None, 2, "p"),
        ("https://api.example/b", 2, "p"),
    ]


async def test_a_step_is_not_handed_what_it_does_not_handle():
    with pytest.raises(InvalidInput, match="Step 'main' handles pages, got a Task"):
        await harvest_of(sync_generator, Task(url=URL))
    with pytest.raises(InvalidInput, match="Step 'main' handles tasks, got a Page"):
        await harvest_of(sync_generator, fetch=None)


def test_a_step_can_still_be_called_like_the_function_it_was():
    assert step_of(returns_list)(page_of())[0] == {"title": "One"}


def line_of(function, part):
    """Return the number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if part in line)


def wrong_items(page):
    yield {"title": "one"}
    yield {"title": object()}  # wrong


def wrong_values(page):
    yield 7  # wrong


async def wrong_values_async(page):
    yield {"title": "one"}
    yield 7  # wrong


def unknown_steps(page):
    yield Task(url="/2", step="detial")  # wrong
    yield {"title": "never reached"}


def wrong_payloads(page):
    yield page.follow("/2", node=page.css_first("h1"))  # wrong
    yield {"title": "never reached"}


def delegating(page):
    yield from wrong_values(page)


@pytest.mark.parametrize(
    "function", [wrong_items, wrong_values, wrong_values_async, unknown_steps, wrong_payloads, delegating]
)
async def test_an_error_found_after_a_yield_names_the_line_of_the_yield(function):
    with pytest.raises((InvalidItem, InvalidTask)) as found:
        await harvest_of(function)
    last = traceback.extract_tb(found.value.__traceback__)[-1]
    where = wrong_values if function is delegating else function
    assert (last.name, last.lineno) == (where.__name__, line_of(where, "# wrong"))


async def test_an_error_that_the_step_raises_itself_keeps_its_traceback():
    def main(page):
        yield page.css("h1[")

    with pytest.raises(InvalidInput) as found:
        await harvest_of(main)
    names = [frame.name for frame in traceback.extract_tb(found.value.__traceback__)]
    assert names[-3:] == ["main", "css", "select"]


async def test_an_error_of_a_returned_value_names_the_function():
    def main(page):
        return {"title": object()}

    async def main_async(page):
        return 7

    for function in (main, main_async):
        first = inspect.getsourcelines(function)[1]
        with pytest.raises(InvalidItem, match=rf"\(returned by test_step\.py:{first}\)"):
            await harvest_of(function)


def test_a_task_for_a_failed_one_may_have_a_url_relative_to_it():
    shop = Scraper("shop")

    @shop.step
    def product(page):
        yield {}

    @product.on_error
    def instead(failed):
        yield Task(url="/archive?page=2", step=product)

    def tasks_for(task, response=None):
        failed = FailedTask(ValueError(), task, 3, response)
        return [one.url for one in product.fallbacks[0].harvest(failed).follow]

    task = Task(url="https://shop.test/a/b", step="product")
    assert tasks_for(task) == ["https://shop.test/archive?page=2"]
    assert tasks_for(task, Response(url="https://www.shop.test/b", status=404)) == [
        "https://www.shop.test/archive?page=2"
    ]
    with pytest.raises(InvalidTask, match="it has no scheme"):
        tasks_for(Task(payload={"n": 1}, step="product"))


async def test_a_harvest_that_a_step_returns_is_stored_as_it_is():
    whole = module.Harvest(items=[{"title": 1}], follow=[Task(url="https://elsewhere.test/", step="main")])

    async def main(page):
        return whole

    assert await harvest_of(main) is whole
