"""Read a body in chunks and decompress it within a limit: a few bytes can expand to gigabytes."""

import zlib
from collections.abc import Iterator

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.files.lines import GZIP

CHUNK = 64 << 10
MAX_MEMBERS = 1_000  # of one gzip file: each needs a new decompressor, and an empty one has only 20 bytes


def read_chunks(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """Yield a body, decompressed if it is gzip; raises TooLarge beyond the limit, or ParseFailed."""
    chunks = _decompress(body) if body[:2] == GZIP else _split(body)
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge(f"it has more than {max_bytes:,} bytes")
        yield chunk


def _split(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), CHUNK):
        yield body[start : start + CHUNK]


def _decompress(body: bytes) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(31)
    members = 1
    for data in _split(body):
        while data:
            yield _decompress_chunk(decompressor, data)
            data = decompressor.unconsumed_tail
            if decompressor.eof:
                # What follows is the next member, or garbage that is ignored.
                data = decompressor.unused_data
                if data[:2] != GZIP:
                    return
                decompressor, members = zlib.decompressobj(31), members + 1
                if members > MAX_MEMBERS:
                    raise ParseFailed(f"its gzip data has more than {MAX_MEMBERS:,} members")
    raise ParseFailed("its gzip data is truncated")


def _decompress_chunk(decompressor: "zlib._Decompress", data: bytes) -> bytes:
    try:
        return decompressor.decompress(data, CHUNK)
    except zlib.error as error:
        raise ParseFailed(f"its gzip data is damaged: {error}") from error
