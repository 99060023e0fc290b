"""A kept answer as bytes, and back: what cannot be read whole is no answer."""

import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from shoal.core.exchange import Headers
from shoal.core.model import NOTHING
from shoal.core.secrets import secret_headers
from shoal.fetch.cache_rules import KEEPABLE, LONGEST, Keeping

FORM = 1  # of the bytes; others are not read
LEVEL = 4  # of compression: a third of the usual time, for 4 % more bytes


class Entry(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    """An answer that is kept. Its age counts on from `age` since the store took it in."""

    form: int
    url: str
    status: int
    fields: list[tuple[str, str]]
    age: float  # seconds
    fresh: float | None
    size: int
    packed: bytes

    @property
    def headers(self) -> Headers:
        """The header fields."""
        return Headers(self.fields)


class Signpost(msgspec.Struct, frozen=True, tag="signpost", array_like=True):
    """Stands for answers that depend on the request's headers: their names are part of where they lie."""

    form: int
    url: str
    names: list[str]


_decoder = msgspec.msgpack.Decoder(Entry | Signpost)
_encode = msgspec.msgpack.Encoder().encode


def key_of(url: str, names: Sequence[str] = (), sent: Mapping[str, str] = NOTHING, *, realm: str = "") -> str:
    """Return where the answer to a GET lies: by its URL, the headers it depends on, and who may see it.

    Who shows a host something secret may see what others who show the same were given, and nothing else.
    """
    shown = (f"{name}={value}" for name, value in sorted(secret_headers(sent).items()))
    parts = ["GET", realm, url, *(f"{name}:{sent.get(name, '')}" for name in names), *shown]
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=20).hexdigest()


def pack(url: str, status: int, fields: list[tuple[str, str]], body: bytes, kept: Keeping) -> bytes:
    """Return an answer as bytes."""
    fresh = None if kept.fresh is None else kept.fresh.total_seconds()
    packed = zlib.compress(body, LEVEL)
    return _encode(Entry(FORM, url, status, fields, kept.age.total_seconds(), fresh, len(body), packed))


def pack_signpost(url: str, names: Sequence[str]) -> bytes:
    """Return the signpost of a URL as bytes."""
    return _encode(Signpost(FORM, url, list(names)))


def unpack(data: bytes, url: str, most: int) -> Entry | Signpost | None:
    """Return what lies under a URL's key; None unless it is whole, and of this URL, and not too large."""
    try:
        found: Any = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if found.form != FORM or found.url != url:
        return None
    if isinstance(found, Signpost):
        return found
    sound = found.status in KEEPABLE and 0 <= found.size <= most
    return found if sound and _is_time(found.age) and _is_time(found.fresh or 0.0) else None


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST.total_seconds()  # which neither infinity nor "no number" is


def body_of(entry: Entry) -> bytes | None:
    """Return the body; None unless it is as long as the entry says, however long it would become."""
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(entry.packed, entry.size + 1)
    except zlib.error:
        return None
    return body if unpacking.eof and len(body) == entry.size and not unpacking.unused_data else None
