"""Decodes Content-Encoding within a size limit: a few bytes can decompress to gigabytes."""

import zlib
from collections.abc import Iterable, Iterator

from shoal.core.errors import BrokenAnswer, TooLarge

Piece = bytes | memoryview

MAX_LAYERS = 5
STEP = 256 << 10  # bytes that one layer returns at a time
# Of these, the first three are decoded; a body in another of them is an error.
_KNOWN = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"})


def decoders(encodings: Iterable[str]) -> "list[Decoder]":
    """Return decoders for a response's Content-Encoding values, the last layer first; raises BrokenAnswer.

    Encodings that nobody knows are ignored, as in browsers: "utf-8" and "none" are common.
    """
    names = [name.strip().lower() for value in encodings for name in value.split(",")]
    known = [name for name in reversed(names) if name in _KNOWN]
    if len(known) > MAX_LAYERS:
        raise BrokenAnswer(f"The body has {len(known)} layers of encoding; the limit is {MAX_LAYERS}")
    return [Decoder(name) for name in known]


class DecodedBody:
    """A body that arrives in chunks and is decoded on the fly."""

    def __init__(self, layers: "list[Decoder]", max_bytes: int) -> None:
        self._layers, self._max_bytes = layers, max_bytes
        self._layer_bytes = [0] * len(layers)
        # Not a list of chunks: with one byte each, they would need a hundred times their size.
        self._body = bytearray()
        self._size = 0
        self._empty = True

    def feed(self, data: Piece) -> int:
        """Add the next chunk, and return by how much the body grew; raises TooLarge or BrokenAnswer."""
        before = self._size
        for piece in self.decode(data):
            self._body += piece
        return self._size - before

    def decode(self, data: Piece) -> Iterator[Piece]:
        """Yield the next chunk decoded, in small pieces that are not kept; raises as `feed` does."""
        self._empty = self._empty and not data
        for piece in self._decode_layers(0, data):
            self._size += len(piece)
            if self._size > self._max_bytes:
                raise self._too_large()
            yield piece

    def finish(self) -> bytes:
        """Return the whole body; raises BrokenAnswer if it is incomplete."""
        if not self._empty:  # a response without a body may still declare an encoding
            for layer in self._layers:
                layer.finish()
        return bytes(self._body)

    def _decode_layers(self, depth: int, data: Piece) -> Iterator[Piece]:
        if depth == len(self._layers):
            yield data
            return
        for part in self._layers[depth].feed(data):
            # Between two layers as well: an inner one may read gigabytes and return nothing.
            self._layer_bytes[depth] += len(part)
            if self._layer_bytes[depth] > self._max_bytes:
                raise self._too_large()
            yield from self._decode_layers(depth + 1, part)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body has more than {self._max_bytes:,} bytes")


class Decoder:
    """Decodes one layer in chunks."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._unpack: zlib._Decompress | None = None

    def feed(self, data: Piece) -> Iterator[bytes]:
        """Yield the decoded data in chunks of at most `STEP` bytes; raises BrokenAnswer."""
        if self._unpack is None and data:
            self._unpack = zlib.decompressobj(_window_bits(self._encoding, data[0]))
        while data and self._unpack and not self._unpack.eof:
            try:
                yield self._unpack.decompress(data, STEP)
            except zlib.error as exc:
                raise BrokenAnswer("The body is not in the declared encoding") from exc
            data = self._unpack.unconsumed_tail

    def finish(self) -> None:
        """Raise BrokenAnswer if the data is incomplete."""
        if self._unpack is None or not self._unpack.eof:
            raise BrokenAnswer("The body ends inside its encoding")


def _window_bits(encoding: str, first_byte: int) -> int:
    if encoding in ("gzip", "x-gzip"):
        return 16 + zlib.MAX_WBITS
    if encoding == "deflate":  # which some servers send with a zlib header and some without
        return zlib.MAX_WBITS if first_byte & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
    raise BrokenAnswer(f"The body is encoded as {encoding!r}, which the request did not accept")
