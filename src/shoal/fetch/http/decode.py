"""Decodes Content-Encoding within a size limit: a few bytes can decompress to gigabytes."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

from shoal.core.errors import BrokenAnswer, TooLarge

Piece = bytes | memoryview

MAX_LAYERS = 5
STEP = 256 << 10  # bytes that one layer returns at a time
ZSTD_WINDOW_LOG = 23  # 8 MiB, the most that HTTP allows
INCOMPLETE = "The body ends inside its encoding"
WRONG_ENCODING = "The body is not in the declared encoding"


class Decoder(Protocol):
    """Decodes one layer in chunks."""

    def feed(self, data: Piece) -> Iterable[Piece]:
        """Yield the decoded data in chunks of about `STEP` bytes."""
        ...

    def finish(self) -> None:
        """Raise BrokenAnswer if the data is incomplete."""
        ...


def decoders(encodings: Iterable[str]) -> list[Decoder]:
    """Return decoders for a response's Content-Encoding values, the last layer first; raises BrokenAnswer.

    Unknown encodings are ignored, as in browsers: "utf-8" and "none" are common.
    """
    names = [name.strip().lower() for value in encodings for name in value.split(",")]
    known = [_KNOWN[name] for name in reversed(names) if name in _KNOWN]
    if len(known) > MAX_LAYERS:
        raise BrokenAnswer(f"The body has {len(known)} layers of encoding; the limit is {MAX_LAYERS}")
    return [make() for make in known]


def supported_encodings() -> list[str]:
    """Return the values for Accept-Encoding: encodings whose modules are installed."""
    offered = []
    for name in ("gzip", "br", "zstd"):  # not deflate, which has two variants and no advantage
        with suppress(BrokenAnswer):
            _KNOWN[name]()
            offered.append(name)
    return offered


class DecodedBody:
    """A body that arrives in chunks and is decoded on the fly."""

    def __init__(self, layers: list[Decoder], max_bytes: int) -> None:
        self._layers, self._max_bytes = layers, max_bytes
        self._layer_bytes = [0] * len(layers)
        # Not a list of chunks: with one byte each, they would need a hundred times their size.
        self._body = bytearray()
        self._passed_on = 0  # bytes of a body that is not kept
        self._empty = True

    def feed(self, data: Piece) -> int:
        """Add the next chunk, and return by how much the body grew; raises TooLarge or BrokenAnswer."""
        self._empty = self._empty and not data
        before = len(self._body)
        for piece in self._decode_layers(0, data):
            self._body += piece
            if len(self._body) > self._max_bytes:
                raise self._too_large()
        return len(self._body) - before

    def decode(self, data: Piece) -> Iterator[Piece]:
        """Yield the next chunk decoded, in small pieces that are not kept; raises as `feed` does."""
        self._empty = self._empty and not data
        for piece in self._decode_layers(0, data):
            self._passed_on += len(piece)
            if self._passed_on > self._max_bytes:
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


class _Zlib:
    """gzip, or deflate with or without a header."""

    def __init__(self, bits: int) -> None:
        self._unpack = zlib.decompressobj(bits)

    def feed(self, data: Piece) -> Iterable[Piece]:
        while data and not self._unpack.eof:
            yield self._decode(data)
            data = self._unpack.unconsumed_tail

    def finish(self) -> None:
        if not self._unpack.eof:
            raise BrokenAnswer(INCOMPLETE)

    def _decode(self, data: Piece) -> bytes:
        try:
            return self._unpack.decompress(data, STEP)
        except zlib.error as exc:
            raise BrokenAnswer(WRONG_ENCODING) from exc


class _Deflate:
    """deflate, which some servers send with a zlib header and some without."""

    def __init__(self) -> None:
        self._inner: _Zlib | None = None

    def feed(self, data: Piece) -> Iterable[Piece]:
        if data and self._inner is None:
            self._inner = _Zlib(zlib.MAX_WBITS if data[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS)
        return self._inner.feed(data) if self._inner else ()

    def finish(self) -> None:
        if self._inner:
            self._inner.finish()


class _Brotli:
    """br, if its module is installed."""

    def __init__(self) -> None:
        brotli = _module("br", "brotli")
        self._unpack: Any = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def feed(self, data: Piece) -> Iterable[Piece]:
        pending = bool(data)
        while pending and not self._unpack.is_finished():
            yield self._decode(data)
            data, pending = b"", not self._unpack.can_accept_more_data()

    def finish(self) -> None:
        if not self._unpack.is_finished():
            raise BrokenAnswer(INCOMPLETE)

    def _decode(self, data: Piece) -> bytes:
        try:
            piece: bytes = self._unpack.process(data, output_buffer_limit=STEP)
        except self._error as exc:
            raise BrokenAnswer(WRONG_ENCODING) from exc
        return piece


class _Zstd:
    """zstd, if its module is installed; a body may have several frames."""

    def __init__(self) -> None:
        self._module = _module("zstd", "compression.zstd", "backports.zstd")  # the first since Python 3.14
        self._unpack = self._new_decoder()

    def feed(self, data: Piece) -> Iterable[Piece]:
        pending = bool(data)
        while pending:
            if self._unpack.eof:
                self._unpack = self._new_decoder()
            yield self._decode(data)
            data = self._unpack.unused_data if self._unpack.eof else b""
            pending = bool(data) or not (self._unpack.eof or self._unpack.needs_input)

    def finish(self) -> None:
        if not self._unpack.eof:
            raise BrokenAnswer(INCOMPLETE)

    def _new_decoder(self) -> Any:
        largest = {self._module.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
        return self._module.ZstdDecompressor(options=largest)

    def _decode(self, data: Piece) -> bytes:
        try:
            piece: bytes = self._unpack.decompress(data, STEP)
        except self._module.ZstdError as exc:
            raise BrokenAnswer(WRONG_ENCODING) from exc
        return piece


_KNOWN: dict[str, Callable[[], Decoder]] = {
    "gzip": lambda: _Zlib(16 + zlib.MAX_WBITS),
    "x-gzip": lambda: _Zlib(16 + zlib.MAX_WBITS),
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}


def _module(encoding: str, *names: str) -> Any:
    """Return the first of these modules that is installed; raises BrokenAnswer."""
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    raise BrokenAnswer(f"The body is encoded as {encoding!r}; to read it, install {names[-1]!r}")
