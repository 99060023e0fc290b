"""A page: the response, its contents, and its links."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidInput, ParseFailed
from shoal.core.http import Headers, Response
from shoal.core.model import Task
from shoal.scrape import page as module
from shoal.scrape.page import MAX_LINKS, NOT_A_LINK, TOO_MANY, Page
from shoal.scrape.parsing import names_text

URL = "https://example.com/shop/list?page=2"

LISTING = """
<title> Books \n to read </title>
<h3><a href="book/1.html" title="One">The <b>first</b>\n book</a></h3>
<h3><a href="/book/2.html#reviews">Second</a></h3>
<li class="next"><a href="?page=3">next</a></li>
<p class="price">12.50&nbsp;€</p>
<a href="mailto:a@b.c">mail</a> <a href="javascript:void(0)">js</a> <a>nowhere</a> <a href="tel:+1">call</a>
<a href="https://Other.example/%7euser">out</a> <a href="ftp://x/y">ftp</a> <a href="http://[bad">bad</a>
<a href="book/1.html">again</a>
"""


def page_of(content, *, url=URL, content_type="text/html; charset=utf-8", **task):
    body = content.encode() if isinstance(content, str) else content
    headers = Headers([("Content-Type", content_type)] if content_type else [])
    return Page(
        Response(url=url, status=200, headers=headers, body=body), Task(url=URL, step="listing", **task)
    )


@pytest.fixture
def page():
    return page_of(LISTING)


def test_a_page_tells_what_came_back(page):
    assert page.url == URL
    assert page.status == 200
    assert page.headers["content-TYPE"] == "text/html; charset=utf-8"
    assert page.body == LISTING.encode()
    assert page.html == LISTING
    assert page.encoding == "utf-8"
    assert page_of("", payload={"a": 1}).payload == {"a": 1}
    assert repr(page) == f"<Page 200 {URL}>"


def test_a_long_page_can_be_parsed_ahead_in_a_thread():
    page = page_of("<p>x" * 300_000 + "<h1>end</h1>")
    assert page.is_long and not page_of(LISTING).is_long
    assert not page_of("[" * 2_000_000, content_type="application/json").is_long
    with ThreadPoolExecutor(1) as pool:
        pool.submit(page.prepare).result()
    assert page.text("h1") == "end"


def test_a_page_that_cannot_be_parsed_is_tried_once_and_still_has_its_bytes(monkeypatch):
    calls = []
    parse = module.parse_html
    monkeypatch.setattr(module, "parse_html", lambda *text: calls.append(text) or parse(*text))
    page = page_of("<" * 8_000_001)
    page.prepare()
    for question in (lambda: page.css("a"), page.links, lambda: page.text("h1")):
        with pytest.raises(ParseFailed, match="8,000,001 characters"):
            question()
    assert len(calls) == 1
    assert len(page.html) == len(page.body) == 8_000_001
    assert page.follow("/x").url == "https://example.com/x"


def test_text_is_that_of_the_first_match_with_whitespace_collapsed(page):
    assert page.text("title") == "Books to read"
    assert page.text("h3 a") == "The first book"
    assert page.text(".price") == "12.50 €"
    assert page.text(".missing") == ""
    assert page.text(".missing", "none") == page.text(".missing", default="none") == "none"


def test_an_attribute_is_that_of_the_first_match(page):
    assert page.attr("h3 a", "title") == "One"
    assert page.attr("li.next a", "href") == "?page=3"
    assert page.attr("h3 a", "missing") is None
    assert page.attr(".missing", "href") is None
    assert page.attr(".missing", "href", "#") == "#"


def test_nodes_have_the_same_verbs_as_the_page(page):
    first, second = page.css("h3")
    assert first.text() == "The first book"
    assert first.text("b") == "first"
    assert first.text("i", "none") == "none"
    assert first.attr("a", "title") == "One"
    assert first.css_first("a").attr("href") == "book/1.html"
    assert first.attr("class") is None
    assert second.css("a")[0].html == '<a href="/book/2.html#reviews">Second</a>'
    assert second.css_first(".missing") is None
    assert second.tag == "h3"
    assert page.css_first(".missing") is None
    assert first == page.css("h3")[0] and first != second and len({first, page.css_first("h3")}) == 1
    assert repr(first) == "<Node h3 'The first book'>"


def test_xpath_gives_nodes_and_text_and_numbers(page):
    assert page.xpath("//h3/a/@href") == ["book/1.html", "/book/2.html#reviews"]
    assert page.xpath("//li/a/text()") == ["next"]
    assert [node.text() for node in page.xpath("//h3")] == ["The first book", "Second"]
    assert page.xpath("count(//h3)") == [2.0]
    assert page.xpath("//nothing") == []
    assert page.css_first("h3").xpath("./a/@title") == ["One"]


def test_links_are_absolute_canonical_and_each_once_in_document_order(page):
    assert page.links() == [
        "https://example.com/shop/book/1.html",
        "https://example.com/book/2.html",
        "https://example.com/shop/list?page=3",
        "https://other.example/~user",
    ]
    assert page.links("h3 a") == page.links()[:2]
    assert page.links("h3") == []


def test_more_links_than_a_page_can_hold_are_counted_as_dropped(monkeypatch):
    monkeypatch.setattr(module, "MAX_LINKS", 3)
    page = page_of("".join(f"<a href=/{number}>" for number in range(10)))
    assert len(page.links()) == 3
    assert page.dropped == {TOO_MANY: 7}
    assert MAX_LINKS == 100_000


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ('<base href="/docs/">', "https://example.com/docs/a"),
        ('<base href="https://cdn.example/x/y">', "https://cdn.example/x/a"),
        ('<base target="_top"><base href="/second/"><base href="/third/">', "https://example.com/second/a"),
        ('<base href="javascript:alert(1)">', "https://example.com/shop/a"),
        ('<base href="http://[bad">', "https://example.com/shop/a"),
        ('<base href="">', "https://example.com/shop/a"),
        ("", "https://example.com/shop/a"),
    ],
)
def test_links_and_follow_obey_the_base_of_the_page(base, found):
    page = page_of(f'<head>{base}</head><a href="a">x</a>')
    assert page.links() == [found]
    assert page.follow("a").url == found


def test_follow_makes_a_task_for_the_same_step_one_deeper():
    page = page_of(LISTING, depth=3, priority=5, partition="TX")
    task = page.follow(page.attr("li.next a", "href"))
    assert task == Task(
        url="https://example.com/shop/list?page=3", step="listing", depth=4, priority=5, partition="TX"
    )


def test_follow_takes_another_step_a_priority_and_a_payload():
    page = page_of(LISTING, priority=5)

    class Book:
        name = "book"

    assert page.follow("/x", step="book").step == page.follow("/x", step=Book()).step == "book"
    assert page.follow("/x", priority=0).priority == 0
    assert page.follow("/x", isbn="1", page=2).payload == {"isbn": "1", "page": 2}
    assert page.follow(page.css_first("h3 a")).url == "https://example.com/shop/book/1.html"


def test_follow_takes_request_options_beside_the_payload(page):
    task = page.follow(
        "/x", step="book", headers={"X-One": "1"}, cookies={"s": "abc"}, json={"page": 2}, rank=3
    )
    assert task.request.post == b'{"page":2}'
    assert task.request.headers["x-one"] == "1" and task.request.headers["cookie"] == "s=abc"
    assert task.payload == {"rank": 3}
    assert page.follow("/x", method="POST").request.post == b""
    assert page.post("/x", form={"a": "1"}, cookies={"s": "abc"}).request.headers["cookie"] == "s=abc"


def test_a_payload_may_be_given_as_a_mapping_under_any_name(page):
    assert page.follow("/x", payload={"headers": 1}, rank=3).payload == {"headers": 1, "rank": 3}
    assert page.post("/x", body=b"", payload={"meta": 1}).payload == {"meta": 1}
    with pytest.raises(InvalidInput, match="payload must be names and values, got 5"):
        page.follow("/x", payload=5)


def test_follow_of_no_link_is_none(page):
    assert page.follow(None) is None
    assert page.follow(page.attr(".missing", "href")) is None
    assert page.follow(page.css("a")[5]) is None
    assert page.dropped == {}


@pytest.mark.parametrize(
    "junk", ["mailto:a@b.c", "javascript:1", "http://[bad", "ftp://a/b", "data:text/plain,x", "\ud800"]
)
def test_follow_of_what_is_no_web_link_is_none_and_counted(page, junk):
    assert page.follow(junk) is None
    assert page.dropped == {NOT_A_LINK: 1}


def test_follow_names_what_is_no_step(page):
    with pytest.raises(InvalidInput, match="step must be a step of the scraper or its name, got 5"):
        page.follow("/x", step=5)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"a": "ü"}'.encode("utf-16"), {"a": "ü"}),
        (b'{"a": NaN}', None),
        (b'{"a": "\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a": "\xfc"}', {"a": "ü"}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_json_that_is_met_but_is_none_is_read_all_the_same(body, value):
    read = page_of(body, content_type="application/json").json()
    assert value is None or read == value


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"a": 1', b"[1,]", b"[" * 1_000_000, b'{"a":' * 200_000, b"1" * 10_000]
)
def test_what_is_no_json_fails_to_parse(body):
    with pytest.raises(ParseFailed, match=r"example.com"):
        page_of(body, content_type="application/json").json()


def test_links_of_json_are_relative_to_its_url_whatever_it_holds():
    page = page_of('{"html": "<base href=https://evil.example/>"}', content_type="application/json")
    assert page.follow("next").url == "https://example.com/shop/next"


@pytest.mark.parametrize("selector", ["a[", "", ">>>", "a:foo", "a::text", None, 5, "(" * 100_000])
def test_a_selector_that_cannot_be_read_is_named(page, selector):
    for verb in (page.css, page.css_first, page.text, page.links):
        with pytest.raises(InvalidInput, match=r"^Not a CSS selector: "):
            verb(selector)
    with pytest.raises(InvalidInput, match=r"Not a CSS selector: 'a\['"):
        page.css_first("h3").css("a[")


@pytest.mark.parametrize("expression", ["//a[", "", "$x", "//x:y", "foo()", "(" * 100_000])
def test_an_xpath_expression_that_cannot_be_read_is_named(page, expression):
    with pytest.raises(InvalidInput, match=r"^Not an XPath expression: "):
        page.xpath(expression)


@pytest.mark.parametrize("body", [b"", b"\xff" * 1000])
def test_what_is_not_html_holds_nothing(body):
    page = page_of(body, content_type="application/pdf")
    assert page.css("a") == page.links() == []
    assert page.text("h1") == ""
    assert page.attr("a", "href") is None


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png"),
        (b"\x00" * 1000, "application/octet-stream"),
    ],
)
def test_bytes_have_no_elements_and_say_so(body, kind):
    page = page_of(body, content_type=kind)
    for select in (lambda: page.css("a"), page.links, page.text, lambda: page.html, page.json):
        with pytest.raises(ParseFailed, match=rf"is {kind}: it has bytes.*page\.body"):
            select()
    assert page.body == body
    assert page.follow("https://shop.test/next")


@pytest.mark.parametrize(
    ("kind", "is_text"),
    [
        ("text/html", True),
        ("application/xhtml+xml", True),
        ("application/rss+xml", True),
        ("application/vnd.api+json", True),
        ("application/x-javascript", True),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", False),
        ("application/pdf", False),
        ("application/octet-stream", False),
        ("image/svg+xml", False),
    ],
)
def test_text_is_told_from_files_by_its_type(kind, is_text):
    assert names_text(kind) is is_text


def test_the_options_of_a_task_are_no_payload():
    page = page_of(LISTING, partition="CA")
    task = page.follow("/a", key="a1", ttl="1h", delay="30s", priority=7, rank=3)
    assert (task.key, task.ttl, task.delay, task.priority, task.partition, task.payload) == (
        "a1",
        timedelta(hours=1),
        timedelta(seconds=30),
        7,
        "CA",
        {"rank": 3},
    )
    assert page.post("/a", form={"q": 1}, partition="NV", key="q1").partition == "NV"
    assert page.follow("/a", payload={"key": "of the page"}).payload == {"key": "of the page"}
    with pytest.raises(InvalidInput, match="ttl must be more than zero"):
        page.follow("/a", ttl=0)
    with pytest.raises(InvalidInput, match="has no option 'delay', which page"):
        page.download("/a", step="file", delay="30s")
