"""A scraper: its steps, its settings, and `parse`, the test helper for its authors."""

from dataclasses import dataclass

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting, InvalidTask, InvalidUrl
from shoal.core.model import MINUTE, SECOND, Task
from shoal.scrape.scraper import Scraper

LISTING = """
<h3><a href="catalogue/one.html">One</a></h3>
<h3><a href="catalogue/two.html">Two</a></h3>
<ul><li class="next"><a href="page-2.html">next</a></li></ul>
"""
BOOK = '<h1>One</h1><p class="price_color">12.50</p>'


@dataclass
class Book:
    title: str
    price: float


def books_of(**settings):
    """Return the example scraper of the design."""
    books = Scraper("books", **settings)

    @books.step
    async def listing(page):
        for link in page.links("h3 a"):
            yield page.follow(link, step=book)
        yield page.follow(page.attr("li.next a", "href"))

    @books.step(item=Book)
    async def book(page):
        yield {"title": page.text("h1"), "price": page.text(".price_color")}

    return books


@pytest.fixture
def books():
    return books_of(rate="5/s", retries=3)


def test_the_scraper_of_the_design_lists_its_pages(books):
    harvest = books.parse(LISTING, url="https://books.example/")
    assert [(task.url, task.step, task.depth) for task in harvest.follow] == [
        ("https://books.example/catalogue/one.html", "book", 1),
        ("https://books.example/catalogue/two.html", "book", 1),
        ("https://books.example/page-2.html", "listing", 1),
    ]
    assert books.parse("<p>the last page</p>").follow == []


def test_the_scraper_of_the_design_reads_its_books(books):
    assert books.parse(BOOK, step="book").items == [{"title": "One", "price": 12.5}]
    assert books.parse(BOOK.encode(), step=books.steps["book"]).items == [{"title": "One", "price": 12.5}]
    (reject,) = books.parse("<h1>One</h1>", step="book").rejects
    assert reject.reason == "price: Expected `float`, got `str` ('')"


def test_steps_are_known_by_the_names_of_their_functions_in_order(books):
    assert list(books.steps) == ["listing", "book"]
    assert books.first is books.steps["listing"]
    assert books.steps["listing"].is_async
    assert repr(books) == "Scraper('books', steps=['listing', 'book'])"


def test_a_step_may_differ_from_its_scraper():
    books = Scraper("books", retries=1)

    @books.step(name="slow one", lease="10m", retries=5, timeout="2m", fetch=None)
    def slow(task):
        return None

    @books.step
    def quick(page):
        return None

    step = books.steps["slow one"]
    assert (step.lease, step.retries, step.timeout, step.fetch) == (10 * MINUTE, 5, 2 * MINUTE, None)
    assert (quick.lease, quick.retries, quick.timeout, quick.fetch) == (None, None, None, "http")
    assert books.max_attempts(step) == books.run_settings().max_attempts == 6
    assert books.max_attempts(quick) == 2


def test_a_scraper_of_payloads_needs_no_word_about_it_in_every_step():
    users = Scraper("users", fetch=None)

    @users.step
    def profile(task):
        return {"user": task.payload["user"]}

    @users.step(fetch="http")
    def picture(page):
        return None

    assert users.parse(None, payload={"user": "a"}).items == [{"user": "a"}]
    assert picture.fetch == "http"


def test_at_most_once_is_one_attempt_for_every_step():
    books = books_of(delivery="at_most_once")
    assert books.run_settings().max_attempts == books.max_attempts(books.first) == 1
    with pytest.raises(InvalidSetting, match="retries cannot be more than 0"):
        books.step(name="x", retries=2)(lambda page: None)


def test_a_step_may_be_delivered_otherwise_than_its_scraper():
    books = Scraper("books", retries=3)
    sure = books.step(name="sure")(lambda page: None)
    quick = books.step(name="quick", delivery="at_most_once")(lambda page: None)
    assert (books.max_attempts(sure), books.max_attempts(quick)) == (4, 1)
    assert books.retry_policy(quick).most_attempts == 1
    assert books.run_settings().max_attempts == 4 and books.has_at_most_once
    once = books.replace(retries=0, delivery="at_most_once")
    assert once.run_settings().max_attempts == 1
    kept = Scraper("books", delivery="at_most_once")
    sure = kept.step(name="sure", delivery="at_least_once", retries=5)(lambda page: None)
    assert kept.max_attempts(sure) == kept.run_settings().max_attempts == 6
    assert not kept.has_at_most_once


def test_a_step_at_most_once_has_no_retries():
    with pytest.raises(InvalidSetting, match="retries cannot be more than 0"):
        Scraper("books").step(name="x", delivery="at_most_once", retries=1)(lambda page: None)
    with pytest.raises(InvalidSetting, match="delivery must be 'at_least_once' or 'at_most_once'"):
        Scraper("books").step(name="x", delivery="maybe")(lambda page: None)


def test_a_task_finds_its_step(books):
    assert books.handler(Task(url="https://a.test/", step="book")).name == "book"
    assert books.handler(Task(url="https://a.test/")).name == "listing"
    with pytest.raises(InvalidTask, match=r"'books' has no step 'bok'. Did you mean 'book'"):
        books.handler(Task(url="https://a.test/", step="bok"))
    with pytest.raises(InvalidTask, match="Known: 'listing', 'book'"):
        books.handler(Task(url="https://a.test/", step="zzz"))
    with pytest.raises(InvalidTask, match="step 'book' fetches pages, but the task has no URL"):
        books.handler(Task(step="book", payload={"a": 1}))


def test_a_step_called_main_is_not_mistaken_for_none():
    books = books_of()
    books.step(name="main")(lambda page: None)
    assert books.handler(Task(url="https://a.test/")).name == "main"


def test_a_scraper_without_steps_says_what_to_write():
    with pytest.raises(InvalidInput, match=r"Scraper 'books' has no step. Put @books.step above a function"):
        _ = Scraper("books").first


def test_two_steps_of_one_name_are_refused(books):
    with pytest.raises(InvalidSetting, match="step 'book' of 'books' is taken by another step; rename"):

        @books.step
        def book(page):
            return None


@pytest.mark.parametrize("wrong", [5, "text", None, Book, [], int])
def test_a_step_must_be_a_function(books, wrong):
    if wrong is None:
        assert callable(books.step(wrong))
    else:
        with pytest.raises(InvalidInput, match=r"A step must be a function|name of a step must be"):
            books.step(wrong)


def test_a_step_takes_one_argument(books):
    with pytest.raises(
        InvalidInput, match=r"A step takes one argument, the page or the task: def nothing\(page\)"
    ):

        @books.step
        def nothing():
            return None

    with pytest.raises(InvalidInput, match="A step takes one argument"):

        @books.step
        def two(page, other):
            return None

    @books.step
    def fine(page, other=None, *args, **kwargs):
        return None


def test_a_lambda_needs_a_name(books):
    with pytest.raises(
        InvalidInput, match="The name of a step must be 1 to 200 printable characters, got '<lambda>'"
    ):
        books.step(lambda page: None)
    assert books.step(name="short")(lambda page: None).name == "short"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, None, 5])
def test_a_scraper_needs_a_name(name):
    with pytest.raises(InvalidInput, match="The name of a scraper must be 1 to 200 printable characters"):
        Scraper(name)


def test_wrong_options_of_a_step_name_the_option(books):
    for option, value in {
        "item": int,
        "fetch": "carrier pigeon",
        "lease": "soon",
        "retries": -1,
        "timeout": 0,
    }.items():
        with pytest.raises(InvalidSetting) as caught:
            books.step(name="x", **{option: value})(lambda page: None)
        assert caught.value.key == option
    with pytest.raises(TypeError):
        books.step(itme=Book)


def test_settings_can_be_changed_for_one_run_without_touching_the_scraper(books):
    slower = books.replace(rate="1/s", max_depth=0)
    assert slower.settings.delay == SECOND
    assert books.settings.delay == SECOND / 5
    assert slower.parse(LISTING).dropped == {"too deep": 3}
    assert books.parse(LISTING).dropped == {}
    assert list(slower.steps) == list(books.steps)
    with pytest.raises(InvalidSetting, match=r"^rate must be"):
        books.replace(rate="fast")


def test_parse_takes_status_headers_and_payload():
    seen = {}
    books = Scraper("books")

    @books.step
    def look(page):
        seen.update(status=page.status, kind=page.headers["X-Kind"], payload=dict(page.payload), url=page.url)

    books.parse("", url="HTTPS://E.com", status=404, headers={"x-kind": "odd"}, payload={"a": 1})
    assert seen == {"status": 404, "kind": "odd", "payload": {"a": 1}, "url": "https://e.com/"}
    with pytest.raises(InvalidUrl):
        books.parse("", url="nonsense")
    with pytest.raises(InvalidTask, match="has no step 'lok'"):
        books.parse("", step="lok")


def test_parse_reads_text_as_text_and_bytes_by_their_encoding():
    books = Scraper("books")
    books.step(name="title")(lambda page: {"title": page.text("h1"), "encoding": page.encoding})
    assert books.parse("<meta charset=latin1><h1>é€</h1>").items == [{"title": "é€", "encoding": "utf-8"}]
    latin = {"content-type": "text/html; charset=latin1"}
    assert books.parse(b"<h1>\xe9</h1>", headers=latin).items == [{"title": "é", "encoding": "windows-1252"}]


async def test_parse_works_inside_a_running_loop(books):
    assert len(books.parse(LISTING).follow) == 3


def test_what_a_step_raises_comes_out_of_parse():
    books = Scraper("books")

    @books.step
    async def broken(page):
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        books.parse("")
