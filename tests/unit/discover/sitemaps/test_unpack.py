"""Bodies read in chunks."""

import gzip

import pytest

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.sitemaps.parse import CHUNK, MAX_MEMBERS, read_chunks

MIB = 1 << 20


def whole(body, most=MIB):
    return b"".join(read_chunks(body, most))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_body_comes_through_packed_or_not(size):
    body = bytes(index % 251 for index in range(size))
    assert whole(body) == body
    assert whole(gzip.compress(body, mtime=0)) == body
    assert (
        whole(gzip.compress(body[: size // 2], mtime=0) + gzip.compress(body[size // 2 :], mtime=0)) == body
    )


def test_what_follows_the_packed_part_is_left_out():
    assert whole(gzip.compress(b"x", mtime=0) + b"\0\0 garbage") == b"x"


@pytest.mark.parametrize("body", [b"x" * (MIB + 1), gzip.compress(b"x" * (MIB + 1), mtime=0)])
def test_more_than_the_limit_is_refused(body):
    with pytest.raises(TooLarge, match="it has more than 1,048,576 bytes"):
        whole(body)


def test_a_bomb_is_left_off_at_the_limit():
    bomb = gzip.compress(bytes(64 * MIB), 9, mtime=0) * 16
    size = 0
    with pytest.raises(TooLarge):
        for chunk in read_chunks(bomb, MIB):
            assert len(chunk) <= CHUNK
            size += len(chunk)
    assert size <= MIB


def test_packed_data_that_breaks_off_or_is_damaged_is_refused():
    packed = bytearray(gzip.compress(bytes(range(256)) * 100, mtime=0))
    with pytest.raises(ParseFailed, match="its gzip data is truncated"):
        whole(bytes(packed[:-10]))
    packed[20:30] = b"\xff" * 10
    with pytest.raises(ParseFailed, match="its gzip data is damaged"):
        whole(bytes(packed))


def test_thousands_of_empty_members_are_refused():
    with pytest.raises(ParseFailed, match=f"more than {MAX_MEMBERS:,} members"):
        whole(gzip.compress(b"", mtime=0) * (MAX_MEMBERS + 1))
