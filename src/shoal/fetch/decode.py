"""Undoes Content-Encoding within a limit: a few bytes can stand for gigabytes."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

from shoal.core.errors import BrokenAnswer, TooLarge

Piece = bytes | memoryview

MOST_LAYERS = 5
STEP = 256 << 10  # bytes that one layer puts out at a time
ZSTD_WINDOW_LOG = 23  # 8 MiB, the most that HTTP allows
BROKEN_OFF = "The body breaks off inside its encoding"
WRONG_CLAIM = "The body is not in the encoding that it claims"


class Decoder(Protocol):
    """Undoes one layer, piece by piece."""

    def feed(self, data: Piece) -> Iterable[Piece]:
        """Yield what the data stands for, in pieces of at most `STEP` bytes or so."""
        ...

    def finish(self) -> None:
        """Raise BrokenAnswer if the end has not come yet."""
        ...


def decoders(encodings: Iterable[str]) -> list[Decoder]:
    """Return what undoes the Content-Encoding values of an answer, the last layer first; raises BrokenAnswer.

    Names that stand for no known encoding are passed over, as browsers do: "utf-8" and "none" are common.
    """
    names = [name.strip().lower() for value in encodings for name in value.split(",")]
    known = [_KNOWN[name] for name in reversed(names) if name in _KNOWN]
    if len(known) > MOST_LAYERS:
        raise BrokenAnswer(f"The body is encoded {len(known)} times over; the limit is {MOST_LAYERS}")
    return [make() for make in known]


def readable() -> list[str]:
    """Return the encodings that can be offered to a host: those whose modules are installed."""
    offered = []
    for name in ("gzip", "br", "zstd"):  # not deflate, which has two spellings and no merit
        with suppress(BrokenAnswer):
            _KNOWN[name]()
            offered.append(name)
    return offered


class Unpacked:
    """A body that comes in piece by piece and is unpacked on the way."""

    def __init__(self, layers: list[Decoder], most: int) -> None:
        self._layers, self._most = layers, most
        self._passed = [0] * len(layers)
        # Not a list of pieces: of one byte each, they would cost a hundred times their size.
        self._body = bytearray()
        self._empty = True

    def feed(self, data: Piece) -> int:
        """Take in the next piece, and return by how much the body grew; raises TooLarge or BrokenAnswer."""
        self._empty = self._empty and not data
        before = len(self._body)
        for piece in self._through(0, data):
            self._body += piece
            if len(self._body) > self._most:
                raise self._too_large()
        return len(self._body) - before

    def finish(self) -> bytes:
        """Return the whole body; raises BrokenAnswer if it broke off."""
        if not self._empty:  # an answer without a body may still name its encoding
            for layer in self._layers:
                layer.finish()
        return bytes(self._body)

    def _through(self, depth: int, data: Piece) -> Iterator[Piece]:
        if depth == len(self._layers):
            yield data
            return
        for part in self._layers[depth].feed(data):
            # Between two layers as well: an inner one may swallow gigabytes and put out nothing.
            self._passed[depth] += len(part)
            if self._passed[depth] > self._most:
                raise self._too_large()
            yield from self._through(depth + 1, part)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body has more than {self._most:,} bytes")


class _Zlib:
    """gzip, or deflate with a header or without one."""

    def __init__(self, bits: int) -> None:
        self._unpack = zlib.decompressobj(bits)

    def feed(self, data: Piece) -> Iterable[Piece]:
        while data and not self._unpack.eof:
            yield self._piece(data)
            data = self._unpack.unconsumed_tail

    def finish(self) -> None:
        if not self._unpack.eof:
            raise BrokenAnswer(BROKEN_OFF)

    def _piece(self, data: Piece) -> bytes:
        try:
            return self._unpack.decompress(data, STEP)
        except zlib.error as exc:
            raise BrokenAnswer(WRONG_CLAIM) from exc


class _Deflate:
    """deflate, which some servers send with its zlib header and some without."""

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
    """br, where its module is installed."""

    def __init__(self) -> None:
        brotli = _module("br", "brotli")
        self._unpack: Any = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def feed(self, data: Piece) -> Iterable[Piece]:
        pending = bool(data)
        while pending and not self._unpack.is_finished():
            yield self._piece(data)
            data, pending = b"", not self._unpack.can_accept_more_data()

    def finish(self) -> None:
        if not self._unpack.is_finished():
            raise BrokenAnswer(BROKEN_OFF)

    def _piece(self, data: Piece) -> bytes:
        try:
            piece: bytes = self._unpack.process(data, output_buffer_limit=STEP)
        except self._error as exc:
            raise BrokenAnswer(WRONG_CLAIM) from exc
        return piece


class _Zstd:
    """zstd, where its module is installed; one frame may follow another."""

    def __init__(self) -> None:
        self._module = _module("zstd", "compression.zstd", "backports.zstd")  # the first since Python 3.14
        self._unpack = self._fresh()

    def feed(self, data: Piece) -> Iterable[Piece]:
        pending = bool(data)
        while pending:
            if self._unpack.eof:
                self._unpack = self._fresh()
            yield self._piece(data)
            data = self._unpack.unused_data if self._unpack.eof else b""
            pending = bool(data) or not (self._unpack.eof or self._unpack.needs_input)

    def finish(self) -> None:
        if not self._unpack.eof:
            raise BrokenAnswer(BROKEN_OFF)

    def _fresh(self) -> Any:
        largest = {self._module.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
        return self._module.ZstdDecompressor(options=largest)

    def _piece(self, data: Piece) -> bytes:
        try:
            piece: bytes = self._unpack.decompress(data, STEP)
        except self._module.ZstdError as exc:
            raise BrokenAnswer(WRONG_CLAIM) from exc
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
    raise BrokenAnswer(f"The body is encoded as {encoding!r}, which needs the module {names[-1]!r} to read")
