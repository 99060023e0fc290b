"""Decoding Content-Encoding within a limit."""

import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import BrokenAnswer, TooLarge
from shoal.fetch.http.decode import STEP, DecodedBody, decoders
from tests.integration.fetch.bombs import chained, deflate_bomb, gzip_bomb

MIB = 1 << 20
TEXT = b"A page of some words, " * 50


def decoded(body, layers, most):
    whole = DecodedBody(layers, most)
    whole.feed(body)
    return whole.finish()


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip": gzip.compress,
    "deflate": zlib.compress,
    " deflate ": raw_deflate,
}


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_comes_out_as_it_went_in(encoding):
    assert decoded(PACKED[encoding](TEXT), decoders([encoding]), MIB) == TEXT


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_may_come_byte_by_byte(encoding):
    whole = DecodedBody(decoders([encoding]), MIB)
    for byte in PACKED[encoding](TEXT):
        whole.feed(bytes([byte]))
    assert whole.finish() == TEXT


@settings(deadline=None, database=None, max_examples=50)
@given(st.binary(max_size=5000), st.lists(st.sampled_from(sorted(PACKED)), max_size=5), st.integers(1, 1000))
def test_layers_are_undone_in_turn(body, encodings, size):
    packed = body
    for encoding in encodings:
        packed = PACKED[encoding](packed)
    whole = DecodedBody(decoders([", ".join(encodings)]), MIB)
    for start in range(0, len(packed), size):
        whole.feed(packed[start : start + size])
    assert whole.finish() == body


@pytest.mark.parametrize("encoding", ["", "identity", "utf-8", "none", "aes128gcm", "binary, 8bit"])
def test_an_encoding_that_nobody_knows_is_passed_over(encoding):
    assert decoded(b"hello", decoders([encoding]), MIB) == b"hello"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_breaks_off_is_broken(encoding):
    packed = PACKED[encoding](TEXT)
    with pytest.raises(BrokenAnswer):
        decoded(packed[: len(packed) // 2], decoders([encoding]), MIB)


def test_a_body_that_is_not_what_it_claims_is_broken():
    with pytest.raises(BrokenAnswer):
        decoded(b"<html>plain words, and quite a few of them</html>", decoders(["gzip"]), MIB)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_follows_the_end_is_left_alone_as_browsers_do(encoding):
    assert decoded(PACKED[encoding](TEXT) + b"\0\0garbage", decoders([encoding]), MIB) == TEXT


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_the_limit_is_exact(size):
    assert len(decoded(gzip.compress(bytes(size)), decoders(["gzip"]), size)) == size
    with pytest.raises(TooLarge):
        decoded(gzip.compress(bytes(size + 1)), decoders(["gzip"]), size)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip_bomb),
        ("deflate", deflate_bomb),
        ("gzip, gzip, gzip", lambda mib: chained(mib, 3)),
    ],
    ids=["gzip", "deflate", "chained"],
)
def test_a_bomb_is_cut_off_at_the_limit(encoding, pack):
    whole = DecodedBody(decoders([encoding]), MIB)
    with pytest.raises(TooLarge):
        whole.feed(pack(500))
    assert len(whole._body) <= MIB + STEP


def test_a_layer_that_puts_out_nothing_may_not_swallow_everything():
    empty_blocks = b"\x00\x00\x00\xff\xff" * (2 * MIB)
    bomb = gzip.compress(empty_blocks)
    with pytest.raises(TooLarge):
        decoded(bomb, decoders(["deflate, gzip"]), MIB)


def test_too_many_layers_are_refused():
    assert len(decoders(["gzip, " * 5])) == 5
    with pytest.raises(BrokenAnswer, match="6 layers"):
        decoders(["gzip, " * 6])


@pytest.mark.parametrize("encodings", ["br", "gzip, zstd"])
def test_an_encoding_that_was_not_accepted_is_an_error(encodings):
    with pytest.raises(BrokenAnswer, match="which the request did not accept"):
        decoded(b"packed", decoders([encodings]), MIB)
