"""Where links and redirects may lead."""

import time

import pytest

from shoal.core.errors import InvalidSetting, OutOfScope
from shoal.core.urls import site_of
from shoal.scrape.scope import Scope

HERE = "https://shop.example.co.uk/list"

HOST = [
    ("https://shop.example.co.uk/other", True),
    ("http://shop.example.co.uk/", True),
    ("https://www.shop.example.co.uk/", True),
    ("https://shop.example.co.uk:8443/", False),
    ("https://example.co.uk/", False),
    ("https://other.example.co.uk/", False),
    ("https://shop.example.co.uk.evil.test/", False),
    ("https://evil.test/shop.example.co.uk", False),
    ("https://evilshop.example.co.uk/", False),
]
SITE = [
    ("https://example.co.uk/", True),
    ("https://www.example.co.uk:8443/", True),
    ("https://a.b.example.co.uk/", True),
    ("https://other.co.uk/", False),
    ("https://co.uk/", False),
    ("https://example.com/", False),
    ("https://example.co.uk.evil.test/", False),
]
PATTERNS = [
    ("https://example.com/blog/*", "https://example.com/blog/a/b?c", True),
    ("https://example.com/blog/*", "https://example.com/shop/", False),
    ("https://example.com/blog/*", "http://example.com/blog/", False),
    ("example.com/blog/*", "http://example.com/blog/", True),
    ("example.com/blog/*", "https://evil.test/example.com/blog/", False),
    ("*.example.com", "https://a.b.example.com/x", True),
    ("*.example.com", "https://a.example.com:8080/x", True),
    ("*.example.com", "https://example.com/", False),
    ("*.example.com", "https://a.example.com.evil.test/", False),
    ("*.example.com", "https://evil.test/.example.com", False),
    ("example.com", "https://example.com/anything", True),
    ("example.com", "https://exampleXcom/", False),
    ("*/product/*", "https://a.test/x/product/1", True),
    ("https://example.com/a?page=*", "https://example.com/a?page=2", True),
    ("https://example.com/a?page=*", "https://example.com/aXpage=2", False),
    (r"re:/p/\d+$", "https://a.test/p/12", True),
    (r"re:/p/\d+$", "https://a.test/p/x", False),
]


@pytest.mark.parametrize(("url", "allowed"), HOST)
def test_host_is_the_same_host_and_port_with_or_without_www(url, allowed):
    assert Scope.read("scope", "host").allows(url, origin=HERE) is allowed


def test_a_page_on_www_may_lead_to_the_bare_host():
    assert Scope("host").allows("https://example.com/", origin="http://www.example.com/")


@pytest.mark.parametrize(("url", "allowed"), SITE)
def test_site_is_the_same_registered_name(url, allowed):
    assert Scope.read("scope", "site").allows(url, origin=HERE) is allowed


def test_any_is_any():
    assert Scope.read("scope", "any").allows("https://elsewhere.test/", origin=HERE)


@pytest.mark.parametrize(("pattern", "url", "allowed"), PATTERNS)
def test_a_pattern_says_itself_where_it_leads(pattern, url, allowed):
    assert bool(Scope.read("scope", pattern).allows(url, origin=HERE)) is allowed


def test_one_of_several_patterns_is_enough():
    scope = Scope.read("scope", ["a.test", "re:^https://b"])
    assert [
        scope.allows(url, origin=None) for url in ("https://a.test/", "https://b.test/", "https://c.test/")
    ] == [
        True,
        True,
        False,
    ]


def test_a_task_without_a_url_may_lead_anywhere_but_patterns_hold():
    assert Scope("host").allows("https://a.test/", origin=None)
    assert not Scope.read("scope", "b.test").allows("https://a.test/", origin=None)


def test_a_redirect_out_of_scope_is_refused_with_what_to_write():
    Scope("host").check("HTTP://WWW.Shop.Example.CO.UK:80/x", origin=HERE)
    with pytest.raises(OutOfScope, match=r"https://evil.test/ is out of scope: 'host'. Widen it"):
        Scope("host").check("https://evil.test/", origin=HERE)
    for trick in (
        "https://shop.example.co.uk@evil.test/",
        "https://evil.test\\@shop.example.co.uk/",
        "javascript:1",
        "",
    ):
        with pytest.raises(OutOfScope):
            Scope("host").check(trick, origin=HERE)


@pytest.mark.parametrize("wrong", ["hots", "everything", "", 5, [], ["host*", 5], "re:("])
def test_what_is_no_scope_is_refused(wrong):
    with pytest.raises(InvalidSetting, match=r"^scope "):
        Scope.read("scope", wrong)


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("a.example.com.au:8080", "example.com.au"),
        ("me.github.io", "me.github.io"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "[::1]"),
        ("[::1]", "[::1]"),
        ("localhost:8000", "localhost"),
        ("a.example.internal", "a.example.internal"),
        ("www.example.com.", "www.example.com."),
        ("co.uk", "co.uk"),
        ("a.city.kawasaki.jp", "city.kawasaki.jp"),
    ],
)
def test_the_site_of_a_host_is_the_registered_name(host, site):
    assert site_of(host) == site


def test_a_link_made_for_it_cannot_hold_a_pattern_up():
    scope = Scope.read("scope", "https://a.test/*a*a*a*b")
    began = time.perf_counter()
    assert not scope.allows("https://a.test/" + "a" * 4_000, origin="https://a.test/")
    assert time.perf_counter() - began < 1
