"""Endless URLs, recognised by their form."""

from datetime import date

import pytest

from shoal.scrape.links.shape import url_parts, without_ids
from shoal.scrape.links.traps import find_endless, is_calendar, is_recurring, is_variant, strip_session

TODAY = date(2026, 6, 1)
HEX = "0123456789abcdef0123456789abcdef"

ENDLESS = [
    ("https://a.test/" + "x" * 2_000, "long addresses"),
    ("https://a.test" + "".join(f"/d{n}" for n in range(21)), "deep paths"),
    ("https://a.test/a/a/a", "repeating paths"),
    ("https://a.test/x/a/a/a/y", "repeating paths"),
    ("https://a.test/a/b/a/b", "repeating paths"),
    ("https://a.test/a/b/c/a/b/c/d", "repeating paths"),
    ("https://a.test/a//a//a", "repeating paths"),
    ("https://a.test/calendar/2040/01", "far dates"),
    ("https://a.test/calendar?month=2037-01", "far dates"),
    ("https://a.test/calendar?year=1899&month=5", "far dates"),
    ("https://a.test/events/1880/05/", "far dates"),
    ("https://a.test/day/2037-01-31", "far dates"),
    ("https://a.test/agenda?d=20370131", "far dates"),
]
HONEST = [
    "https://a.test/",
    "https://a.test/a/a",
    "https://a.test/a/b/a",
    "https://a.test/1/1/1",
    "https://a.test/2024/01/01/01-news",
    "https://github.test/django/django/blob/main/django/apps.py",
    "https://a.test/calendar/2027/01",
    "https://a.test/calendar?month=2016-06",
    "https://a.test/events/1998/05/the-great-meeting",
    "https://a.test/2040/05/",
    "https://a.test/thread/2099/10",
    "https://a.test/product/20991231",
    "https://a.test/part/4532-10",
    "https://a.test/holidays-2099/12",
    "https://a.test/?t=98af2040-05",
    "https://a.test" + "".join(f"/d{n}" for n in range(20)),
]


@pytest.mark.parametrize(("url", "why"), ENDLESS)
def test_an_endless_url_is_recognised(url, why):
    assert find_endless(url, url_parts(url), TODAY) == why


@pytest.mark.parametrize("url", HONEST)
def test_an_ordinary_url_is_left_alone(url):
    assert find_endless(url, url_parts(url), TODAY) is None


def test_what_is_far_depends_on_today():
    url = "https://a.test/calendar/2040/01"
    assert find_endless(url, url_parts(url), date(2035, 1, 1)) is None


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://a.test/x;jsessionid=ABC123", "https://a.test/x"),
        ("https://a.test/x;jsessionid=ABC123?b=1", "https://a.test/x?b=1"),
        ("https://a.test/x;JSESSIONID=A/y", "https://a.test/x/y"),
        ("https://a.test/x?PHPSESSID=abc", "https://a.test/x"),
        ("https://a.test/x?a=1&phpsessid=abc&b=2", "https://a.test/x?a=1&b=2"),
        ("https://a.test/x?phpsessid=abc&b=2", "https://a.test/x?b=2"),
        (f"https://a.test/x?sid={HEX}", "https://a.test/x"),
        (f"https://a.test/x?t=5&sid={HEX}&s={HEX}", "https://a.test/x?t=5"),
        ("https://a.test/(S(abcdefghij0123456789abcd))/x.aspx", "https://a.test/x.aspx"),
        ("https://a.test/x?ASPSESSIONIDQQQ=1", "https://a.test/x"),
        ("https://a.test/x?CFID=1&CFTOKEN=2&id=3", "https://a.test/x?id=3"),
    ],
)
def test_session_ids_are_taken_out(url, bare):
    assert strip_session(url) == bare


@pytest.mark.parametrize(
    "url",
    [
        "https://a.test/x?sid=5",
        "https://a.test/x?s=summer+shoes",
        "https://a.test/x?side=1",
        "https://a.test/x?session=autumn",
        "https://a.test/x?a=&&b",
        "https://a.test/x;v=1",
        "https://a.test/sid/0123456789abcdef",
        "https://a.test/x?basid=0123456789abcdef01",
    ],
)
def test_what_is_no_session_id_stays(url):
    assert strip_session(url) == url


def test_views_of_the_same_page_are_recognised():
    for query in (
        "sort=price",
        "a=1&sort_by=x",
        "orderby=name",
        "print=1",
        "d=desc",
        "C=N;O=D",
        "replytocom=5",
    ):
        assert is_variant(url_parts(f"https://a.test/x?{query}")), query
    for query in (
        "",
        "order=12345",
        "page=2",
        "view=article",
        "dir=/tmp",
        "sorted_id=5",
        "C=Nice",
        "q=print",
    ):
        assert not is_variant(url_parts(f"https://a.test/x?{query}")), query


def test_a_name_three_times_in_a_path_recurs():
    assert is_recurring(["django", "django", "blob", "django"])
    assert not is_recurring(["django", "django", "1", "1", "1"])


def test_a_sheet_of_a_calendar_has_a_date_at_its_end():
    assert is_calendar(url_parts("https://a.test/calendar/2026/05"))
    assert is_calendar(url_parts("https://a.test/x?y=2026&month=5"))
    assert not is_calendar(url_parts("https://a.test/calendar/2026/05/concert"))
    assert not is_calendar(url_parts("https://a.test/today/2026/05"))


def test_an_address_is_taken_apart():
    address = url_parts("https://a.test:81/Shop/item-12/?b=2&a&b=3")
    assert address.host == "a.test:81"
    assert address.segments == ["Shop", "item-12"]
    assert address.params == [("b", "2"), ("a", ""), ("b", "3")]
    assert address.shape == "a.test:81/Shop/item-#/?a&b"
    assert address.section == "a.test:81/Shop/"


@pytest.mark.parametrize(
    ("url", "section"),
    [
        ("https://a.test/", "a.test/"),
        ("https://a.test/about", "a.test/"),
        ("https://a.test/list?page=2", "a.test/list?"),
        ("https://a.test/12/x", "a.test/#/"),
        ("https://a.test/blog/2024/x?y", "a.test/blog/"),
    ],
)
def test_a_section_is_the_first_folder_or_the_page_that_has_a_query(url, section):
    assert url_parts(url).section == section


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("/product/123", "/product/#"),
        ("/p/page-12.html", "/p/page-#.html"),
        ("/u/6f1ed002-ab5f-4b1e-9c3a-0123456789ab", "/u/#"),
        ("/c/deadbeef01", "/c/#"),
        ("/t/aZ3kQ9xLmN0pR7sT2uV5wX8y", "/t/#"),
        ("/facade/feedback", "/facade/feedback"),
        ("/a-quite-long-title-of-an-article", "/a-quite-long-title-of-an-article"),
    ],
)
def test_ids_are_replaced_and_words_are_not(text, pattern):
    assert without_ids(text) == pattern
