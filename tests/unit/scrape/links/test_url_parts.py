"""The parts of a URL, its section and its pattern, and session ids."""

import pytest

from shoal.scrape.links.url_parts import strip_session, url_parts, without_ids

HEX = "0123456789abcdef0123456789abcdef"


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


def test_an_address_is_taken_apart():
    address = url_parts("https://a.test:81/Shop/item-12/?b=2&a&b=3")
    assert address.host == "a.test:81"
    assert address.segments == ["Shop", "item-12"]
    assert address.params == [("b", "2"), ("a", ""), ("b", "3")]
    assert address.pattern == "a.test:81/Shop/item-#/?a&b"
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
