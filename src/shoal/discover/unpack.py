"""A body piece by piece, unpacked within a limit: a few bytes can stand for gigabytes."""

import zlib
from collections.abc import Iterator

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.lines import GZIP

PIECE = 64 << 10
MOST_MEMBERS = 1_000  # of one gzip file: each begins anew, and an empty one has but 20 bytes


def pieces(body: bytes, most: int) -> Iterator[bytes]:
    """Yield a body, unpacked if its content is gzip; raises TooLarge beyond the limit, or ParseFailed."""
    parts = _unpacked(body) if body[:2] == GZIP else _cut(body)
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise TooLarge(f"it has more than {most:,} bytes")
        yield part


def _cut(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]


def _unpacked(body: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(31)
    members = 1
    for data in _cut(body):
        while data:
            yield _piece(unpacker, data)
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                # What follows the end is the next member, or of no interest.
                data = unpacker.unused_data
                if data[:2] != GZIP:
                    return
                unpacker, members = zlib.decompressobj(31), members + 1
                if members > MOST_MEMBERS:
                    raise ParseFailed(f"its gzip data has more than {MOST_MEMBERS:,} members")
    raise ParseFailed("its gzip data breaks off")


def _piece(unpacker: "zlib._Decompress", data: bytes) -> bytes:
    try:
        return unpacker.decompress(data, PIECE)
    except zlib.error as error:
        raise ParseFailed(f"its gzip data is damaged: {error}") from error
