"""A playback responds from the recording, and sends nothing."""

import pytest

from shoal.core.errors import NotRecorded, OutOfScope
from shoal.core.http import Headers, Request, Response
from shoal.core.request_options import asked_for
from shoal.fetch.archive import PlaybackFetcher

SITE = "https://shop.test"


def answer(url, status=200, body=b"", **fields):
    return Response(url=url, status=status, headers=Headers(fields.items()), body=body)


def fetcher_of(*answers):
    record = {response.url: response for response in answers}
    return PlaybackFetcher(record.get, record="shop.warc.gz")


async def fetch(fetcher, path, **more):
    return await fetcher.fetch(Request(url=f"{SITE}{path}", **more))


async def test_an_answer_is_what_was_recorded_whatever_its_status():
    fetcher = fetcher_of(answer(f"{SITE}/a", body=b"A"), answer(f"{SITE}/b", status=500))
    assert (await fetch(fetcher, "/a")).body == b"A"
    assert (await fetch(fetcher, "/b")).status == 500
    assert (await fetch(fetcher, "/x/../a#part")).body == b"A"


async def test_a_page_that_was_not_recorded_is_an_error_that_says_what_to_do():
    with pytest.raises(NotRecorded, match=r"not in shop\.warc\.gz.* --warc") as caught:
        await fetch(fetcher_of(), "/a")
    assert caught.value.url == f"{SITE}/a"


async def test_redirects_are_followed_within_the_record_and_the_scope():
    fetcher = fetcher_of(
        answer(f"{SITE}/old", status=301, location="/new"),
        answer(f"{SITE}/new", body=b"N"),
        answer(f"{SITE}/round", status=302, location="/round"),
        answer(f"{SITE}/out", status=302, location="ftp://x/"),
    )
    seen = []

    async def on_hop(url):
        seen.append(url)

    found = await fetch(fetcher, "/old", on_hop=on_hop)
    assert (found.url, found.redirects, found.body, seen) == (
        f"{SITE}/new",
        (f"{SITE}/old",),
        b"N",
        [f"{SITE}/new"],
    )
    for path in ("/round", "/out"):
        with pytest.raises(OutOfScope):
            await fetch(fetcher, path)
    with pytest.raises(OutOfScope, match="scheme"):
        await fetcher.fetch(Request(url="ftp://shop.test/"))


async def test_a_missing_robots_txt_forbids_nothing():
    assert (await fetch(fetcher_of(), "/robots.txt")).status == 404
    with pytest.raises(NotRecorded):
        await fetch(fetcher_of(), "/shop/robots.txt")


async def test_a_post_has_an_answer_of_its_own_and_goes_along_with_redirects_that_keep_it():
    posted = {
        asked_for(f"{SITE}/a", b"1"): answer(f"{SITE}/a", status=307, location="/b"),
        asked_for(f"{SITE}/b", b"1"): answer(f"{SITE}/b", status=303, location="/c"),
        f"{SITE}/c": answer(f"{SITE}/c", body=b"C"),
    }
    fetcher = PlaybackFetcher(posted.get, record="shop.warc.gz")
    assert (await fetch(fetcher, "/a", post=b"1")).body == b"C"
    with pytest.raises(NotRecorded):
        await fetch(fetcher, "/a", post=b"2")
    with pytest.raises(NotRecorded):
        await fetch(fetcher, "/a")
