"""A stored response is read back intact, or not at all."""

import zlib
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fetch.cache.entry import (
    FORMAT_VERSION,
    CacheEntry,
    body_of,
    key_of,
    pack,
    unpack,
)
from shoal.fetch.cache.rules import StoragePolicy

URL = "https://shop.test/page"
MOST = 1 << 20
KEPT = StoragePolicy(timedelta(seconds=2), timedelta(seconds=30))
BODY = b"<title>A page</title>" * 40
PACKED = pack(URL, 200, [("Content-Type", "text/html")], BODY, KEPT)


def entry(**changes):
    """Return the bytes of an entry that was tampered with."""
    found = unpack(PACKED, URL, MOST)
    return msgspec.msgpack.encode(msgspec.structs.replace(found, **changes))


def test_an_answer_comes_back_as_it_was():
    found = unpack(PACKED, URL, MOST)
    assert (found.status, found.fields, body_of(found)) == (200, [("Content-Type", "text/html")], BODY)
    assert (found.age, found.fresh) == (2.0, 30.0)
    assert len(PACKED) < len(BODY) / 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        PACKED + b"x",
        entry(url="https://evil.test/"),
        entry(form=FORMAT_VERSION + 1),
        entry(status=500),
        entry(size=MOST + 1),
        entry(size=-1),
        entry(age=-1e9),
        entry(age=float("inf")),
        entry(age=float("nan")),
        entry(fresh=float("inf")),
        entry(fresh=-5.0),
        msgspec.msgpack.encode({"url": URL}),
    ],
)
def test_what_is_not_ours_is_a_miss(data):
    assert unpack(data, URL, MOST) is None


@pytest.mark.parametrize(
    "packed",
    [b"", b"junk", zlib.compress(BODY)[:-5], zlib.compress(BODY) + b"more", zlib.compress(BODY + b"!")],
)
def test_a_body_that_is_not_whole_is_a_miss(packed):
    assert body_of(unpack(entry(packed=packed), URL, MOST)) is None


def test_a_body_that_would_become_larger_than_it_says_is_not_unpacked():
    bomb = zlib.compress(bytes(64 << 20), 9)
    assert body_of(CacheEntry(FORMAT_VERSION, URL, 200, [], 0.0, None, 100, bomb)) is None


@given(st.binary(max_size=200), st.integers(0, len(PACKED)))
def test_no_bytes_make_reading_fail(junk, place):
    found = unpack(PACKED[:place] + junk + PACKED[place:], URL, MOST)
    if isinstance(found, CacheEntry):
        body_of(found)


def test_the_key_tells_urls_and_headers_apart():
    assert key_of(URL, {"accept": "a", "x": "b"}) == key_of(URL, {"x": "b", "accept": "a"})
    keys = {
        key_of(URL),
        key_of(URL + "?"),
        key_of(URL, {"accept": "a"}),
        key_of(URL, {"accept": "b"}),
        key_of(URL, {"x": "a"}),
        key_of(URL, {"accept": "a", "x": "b"}),
        key_of(URL, realm="10.0.0.0/8"),
    }
    assert len(keys) == 7
