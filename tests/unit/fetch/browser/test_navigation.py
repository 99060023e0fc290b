"""Which headers each request of a page may carry, and what its responses mean."""

import asyncio

import pytest

from shoal.core.errors import InvalidSetting, OutOfScope, TooLarge
from shoal.core.http import Headers, Request
from shoal.fetch.browser.navigation import Navigation
from shoal.fetch.contract import Limits

START = "https://shop.test/start"


def visit(headers=None, **more):
    made = Navigation(
        Request(url=START, headers=headers or {}, **more), Limits(max_body=100, max_redirects=2)
    )
    made.at = START
    return made


def sent(one, url, own=None, *, is_page=True):
    found = one.headers_for(url, own or {}, is_page=is_page)
    return None if found is None else {entry["name"].lower(): entry["value"] for entry in found}


async def test_without_headers_of_the_caller_nothing_is_changed():
    assert sent(visit(), START, {"Accept": "x"}) is None


async def test_headers_of_the_caller_come_to_those_of_the_browser():
    one = visit({"Authorization": "secret"})
    assert sent(one, START, {"Accept": "x", "authorization": "old"}) == {
        "accept": "x",
        "authorization": "secret",
    }


@pytest.mark.parametrize("there", ["https://shop.test:8443/", "http://shop.test/", "https://www.shop.test/"])
async def test_they_stay_behind_where_a_page_leads_elsewhere(there):
    one = visit({"Authorization": "secret", "Accept": "mine"})
    await one.follow(there)
    # The browser's own headers include those added on the hop before.
    assert sent(one, there, {"authorization": "secret", "accept": "mine"}) == {"accept": "mine"}
    one.at = there
    await one.follow(START)
    assert "authorization" not in sent(one, START)


async def test_parts_of_a_page_get_them_for_its_own_origin_only():
    one = visit({"X-Key": "secret"})
    assert sent(one, "https://shop.test/data", is_page=False) == {"x-key": "secret"}
    assert sent(one, "https://evil.test/data", {"X-Key": "secret"}, is_page=False) == {}


async def test_what_the_browser_says_to_everybody_is_not_added():
    one = visit({"User-Agent": "mine", "Accept-Language": "de"})
    assert one.browser_headers == {"user-agent": "mine", "accept-language": "de"}
    assert sent(one, START) is None
    with pytest.raises(InvalidSetting):
        visit({"Host": "x"})


async def test_a_page_leads_so_far_and_no_farther():
    one = visit()
    await one.follow("https://shop.test/1")
    await one.follow("https://shop.test/2")
    with pytest.raises(OutOfScope, match="more than 2 times"):
        await one.follow("https://shop.test/3")


@pytest.mark.parametrize(
    ("fields", "is_raw"),
    [
        ({"content-type": "text/html; charset=utf-8"}, False),
        ({"content-type": "application/xhtml+xml"}, False),
        ({}, False),
        ({"content-type": "application/json"}, True),
        ({"content-type": "text/html", "content-disposition": "attachment; filename=x"}, True),
        ({"content-type": "image/png"}, True),
    ],
)
async def test_what_is_no_page_is_wanted_as_it_is(fields, is_raw):
    one = visit()
    one.record_response(START, 200, Headers(fields.items()))
    assert one.is_raw == is_raw
    one.record_response(START, 204, Headers(fields.items()))
    assert not one.is_raw


async def test_answers_are_hops_or_the_document():
    one = visit()
    one.record_response(START, 302, Headers([("Location", "/next")]))
    assert [hop.url for hop in one.hops] == [START] and one.document is None
    one.record_response("https://shop.test/next#part", 302, Headers())
    assert one.document.url == "https://shop.test/next"
    with pytest.raises(TooLarge, match="announces 101 bytes"):
        one.record_response(START, 200, Headers([("Content-Length", "101")]))


async def test_who_waits_hears_why_a_visit_failed():
    one = visit()
    waiting = asyncio.create_task(one.unless_failed(asyncio.sleep(60)))
    await asyncio.sleep(0)
    one.fail(LookupError("first"))
    one.fail(LookupError("second"))
    with pytest.raises(LookupError, match="first"):
        await waiting
    with pytest.raises(LookupError, match="first"):
        await one.unless_failed(asyncio.sleep(0))
