"""The caching fetcher: when it sends a request, which one, and what it returns."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import BrokenAnswer, OutOfScope, QueueUnavailable
from shoal.core.http import Headers, Hop, Request, Response
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.store import StoredEntry

URL = "https://shop.test/page"
NEXT = "https://shop.test/next"
TAG = ("etag", '"1"')


class Host:
    """Responds from a table, and records its requests."""

    def __init__(self):
        self.table, self.asked, self.closed = {}, [], False

    def on(self, url, status=200, body=b"page", fields=(), **more):
        self.table[url] = Response(url=url, status=status, headers=Headers(fields), body=body, **more)

    async def fetch(self, request):
        self.asked.append((request.url, dict(request.headers)))
        answer = self.table[request.url]
        if "if-none-match" in request.headers and request.headers["if-none-match"] == answer.headers.get(
            "etag"
        ):
            return Response(url=answer.url, status=304, headers=Headers([("x-now", "yes")]))
        return answer

    async def close(self):
        self.closed = True


class Shelf:
    """A store with a clock that the test sets."""

    def __init__(self):
        self.kept, self.now, self.fails = {}, timedelta(0), False

    async def get(self, key):
        if self.fails:
            raise QueueUnavailable("sqlite:///x", "away")
        found = self.kept.get(key)
        return StoredEntry(found[0], self.now - found[1]) if found else None

    async def put(self, key, value, *, ttl):
        if self.fails:
            raise QueueUnavailable("sqlite:///x", "away")
        if value is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = value, self.now

    async def close(self):
        pass

    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def fetcher(host, shelf):
    return CachingFetcher(host, shelf, user_agent="shoal", now=lambda: datetime(2026, 2, 15, tzinfo=UTC))


async def fetch(fetcher, url=URL, **more):
    return await fetcher.fetch(Request(url=url, **more))


async def test_a_page_is_asked_for_once_in_its_lifetime(fetcher, host, shelf):
    host.on(URL, body=b"one", fields=[("content-type", "text/html")])
    first = await fetch(fetcher)
    shelf.wait(59)
    again = await fetch(fetcher)
    assert (first.from_cache, again.from_cache, len(host.asked)) == (False, True, 1)
    assert (again.url, again.status, again.body, again.headers["content-type"]) == (
        URL,
        200,
        b"one",
        "text/html",
    )
    shelf.wait(1)
    assert not (await fetch(fetcher)).from_cache
    assert len(host.asked) == 2


async def test_the_answer_to_a_post_is_neither_kept_nor_found(fetcher, host):
    host.on(URL, body=b"posted")
    assert (await fetch(fetcher, post=b"1")).body == b"posted"
    host.on(URL, body=b"page")
    assert (await fetch(fetcher)).body == b"page"
    host.on(URL, body=b"posted again")
    assert (await fetch(fetcher, post=b"1")).body == b"posted again"
    assert (await fetch(fetcher)).body == b"page"


async def test_what_may_not_be_kept_is_asked_for_every_time(fetcher, host):
    host.on(URL, fields=[("cache-control", "no-store")])
    await fetch(fetcher)
    await fetch(fetcher)
    assert len(host.asked) == 2


async def test_a_page_out_of_date_is_asked_about_and_a_304_refreshes_it(fetcher, host, shelf):
    host.on(URL, body=b"long page", fields=[TAG])
    await fetch(fetcher)
    shelf.wait(61)
    again = await fetch(fetcher)
    assert host.asked[-1] == (URL, {"if-none-match": '"1"'})
    assert (again.status, again.body, again.from_cache, again.headers["x-now"]) == (
        200,
        b"long page",
        False,
        "yes",
    )
    shelf.wait(59)
    assert (await fetch(fetcher)).from_cache
    assert len(host.asked) == 2


async def test_a_page_that_has_changed_takes_the_place_of_the_old_one(fetcher, host, shelf):
    host.on(URL, body=b"old", fields=[TAG])
    await fetch(fetcher)
    shelf.wait(61)
    host.on(URL, body=b"new", fields=[("etag", '"2"')])
    assert (await fetch(fetcher)).body == b"new"
    assert (await fetch(fetcher)).body == b"new"
    assert len(host.asked) == 2


async def test_a_host_that_calls_another_page_unchanged_is_not_believed(fetcher, host, shelf):
    host.on(URL, fields=[TAG])
    await fetch(fetcher)
    shelf.wait(61)
    host.table[URL] = Response(url=NEXT, status=200, headers=Headers([TAG]))
    with pytest.raises(BrokenAnswer):
        await fetch(fetcher)
    await fetch(fetcher)
    assert "if-none-match" not in host.asked[-1][1]


async def test_each_variant_of_a_request_gets_its_own_page(fetcher, host):
    host.on(URL, body=b"english")
    await fetch(fetcher, headers={"Accept-Language": "en"})
    host.on(URL, body=b"deutsch")
    assert (await fetch(fetcher, headers={"accept-language": "de"})).body == b"deutsch"
    assert (await fetch(fetcher, headers={"Accept-Language": "en"})).body == b"english"
    assert (await fetch(fetcher, headers={"Accept-Language": "de"})).body == b"deutsch"
    assert len(host.asked) == 2


SHOWN = ["X-API-Key", "X-Auth-Token", "X-Session-Id", "X-Amz-Credential"]


@pytest.mark.parametrize("name", ["Referer", "X-Request-Id", "traceparent", "tracestate"])
async def test_a_header_of_one_request_only_makes_no_variant_unless_the_page_depends_on_it(
    fetcher, host, name
):
    host.on(URL)
    host.on(NEXT, fields=[("vary", f"Accept, {name}")])
    for number in range(3):
        await fetch(fetcher, headers={name: str(number)})
        await fetch(fetcher, NEXT, headers={name: str(number)})
    assert [url for url, _ in host.asked] == [URL, NEXT, NEXT, NEXT]


@pytest.mark.parametrize("fields", [(), [("vary", "Accept-Language")], [("cache-control", "public"), TAG]])
@pytest.mark.parametrize("name", [*SHOWN, "Authorization", "Cookie"])
async def test_accounts_do_not_see_each_others_pages(host, shelf, name, fields):
    """Scrapers that share a queue, or tasks of one run: another secret, or none, is another cache key."""
    alice, bob, nobody = (CachingFetcher(host, shelf, user_agent="shoal") for _ in range(3))
    whose = [(alice, {name: "of-alice"}), (bob, {name.lower(): "of-bob"}), (nobody, {}), (alice, {name: "2"})]
    for number, (fetcher, headers) in enumerate(whose):
        host.on(URL, body=b"%d" % number, fields=fields)
        assert (await fetch(fetcher, headers=headers)).body == b"%d" % number
    if name in SHOWN or (fields and fields[0][0] == "cache-control"):
        host.on(URL, body=b"never asked", fields=fields)
        for number, (fetcher, headers) in enumerate(whose):
            assert (await fetch(fetcher, headers=headers)).body == b"%d" % number


async def test_an_account_is_left_out_where_a_kept_redirect_leads_to_another_origin(fetcher, host):
    there = "https://other.test/"
    hops = (Hop(url=URL, status=301, headers=Headers([("location", there)])),)
    host.table[URL] = Response(url=there, status=200, body=b"for all", hops=hops, redirects=(URL,))
    await fetch(fetcher, headers={"X-Api-Key": "mine"})
    host.on(there, body=b"never asked")
    assert (await fetch(fetcher, url=there)).body == b"for all"


async def test_a_host_that_was_sent_a_form_and_set_a_cookie_is_no_longer_shared(host, shelf):
    mine, other = (CachingFetcher(host, shelf, user_agent="shoal") for _ in range(2))
    host.on(URL, body=b"of nobody")
    await fetch(mine)
    host.on(NEXT, fields=[("set-cookie", "sid=1")])
    await fetch(mine, url=NEXT, post=b"user=me")
    host.on(URL, body=b"of me")
    assert [(await fetch(mine)).body for _ in range(2)] == [b"of me", b"of me"]
    host.on(URL, body=b"never asked")
    assert [(await fetch(one)).body for one in (mine, other)] == [b"of me", b"of nobody"]


async def test_a_caller_with_conditions_of_his_own_talks_to_the_host(fetcher, host):
    host.on(URL, fields=[TAG])
    await fetch(fetcher)
    answer = await fetch(fetcher, headers={"If-None-Match": '"1"', "if-none-match": '"1"'})
    assert (answer.status, len(host.asked)) == (304, 2)
    await fetch(fetcher, headers={"Cache-Control": "no-cache"})
    assert len(host.asked) == 3


def redirected(host, status, *fields):
    hop = Hop(url=URL, status=status, headers=Headers([("location", "/next"), *fields]))
    host.table[URL] = Response(url=NEXT, status=200, body=b"there", redirects=(URL,), hops=(hop,))


async def test_a_lasting_redirect_is_known_again_and_still_passes_the_scope(fetcher, host):
    redirected(host, 301)
    await fetch(fetcher)
    hops = []

    async def on_hop(url):
        hops.append(url)

    again = await fetch(fetcher, on_hop=on_hop)
    assert (again.url, again.body, again.redirects, hops) == (NEXT, b"there", (URL,), [NEXT])
    assert len(host.asked) == 1

    async def refuse(url):
        raise OutOfScope("not there")

    with pytest.raises(OutOfScope):
        await fetch(fetcher, on_hop=refuse)


async def test_a_passing_redirect_is_asked_for_again_from_its_beginning(fetcher, host):
    redirected(host, 302)
    await fetch(fetcher)
    await fetch(fetcher)
    assert [url for url, _ in host.asked] == [URL, URL]


async def test_a_circle_of_redirects_comes_to_an_end(fetcher, host, shelf):
    for one, other in ((URL, "/next"), (NEXT, "/page")):
        hop = Hop(url=one, status=301, headers=Headers([("location", other)]))
        host.table[one] = Response(url="https://shop.test/x", status=200, redirects=(one,), hops=(hop,))
        await fetch(fetcher, one)
    assert (await fetch(fetcher)).url == "https://shop.test/x"
    assert len(host.asked) == 3


async def test_a_block_page_is_not_kept(host, shelf):
    import re

    fetcher = CachingFetcher(host, shelf, user_agent="shoal", block=re.compile("robot"))
    host.on(URL, body=b"are you a robot?")
    await fetch(fetcher)
    host.on(URL, body=b"welcome")
    assert (await fetch(fetcher)).body == b"welcome"


async def test_a_store_that_fails_costs_a_fetch_and_no_more(fetcher, host, shelf):
    host.on(URL)
    await fetch(fetcher)
    shelf.fails = True
    assert (await fetch(fetcher)).body == b"page"
    assert len(host.asked) == 2


async def test_a_kept_page_takes_its_room(fetcher, host):
    host.on(URL, body=b"12345")
    await fetch(fetcher)
    sizes = []

    async def on_bytes(size):
        sizes.append(size)

    await fetch(fetcher, on_bytes=on_bytes)
    assert sizes == [5]


async def test_headers_that_are_no_text_do_no_harm(fetcher, host):
    host.on(URL, fields=[("x-half", "a\udce9"), ("etag", '"\udce9"'), ("x-dash", "\u2013")])
    await fetch(fetcher)
    again = await fetch(fetcher)
    assert (again.from_cache, again.headers["x-half"], again.headers["x-dash"]) == (True, "a?", "\u2013")


async def test_what_is_no_url_is_left_to_the_fetcher_behind(fetcher, host):
    host.on("ftp://x/")
    assert not (await fetch(fetcher, "ftp://x/")).from_cache


async def test_a_page_of_a_private_host_is_not_shown_to_who_may_not_ask_it(host, shelf):
    host.on(URL, body=b"inside")
    await fetch(CachingFetcher(host, shelf, user_agent="shoal", realm="shop.test"))
    host.on(URL, body=b"refused")
    assert (await fetch(CachingFetcher(host, shelf, user_agent="shoal"))).body == b"refused"
    allowed = CachingFetcher(host, shelf, user_agent="shoal", realm="shop.test")
    assert (await fetch(allowed)).body == b"inside"


async def test_an_answer_from_a_fetcher_that_hides_its_redirects_is_not_kept(fetcher, host):
    host.table[URL] = Response(url=NEXT, status=200, redirects=(URL,))
    await fetch(fetcher)
    host.on(NEXT)
    assert not (await fetch(fetcher, NEXT)).from_cache
