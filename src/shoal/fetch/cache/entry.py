"""A stored response as bytes, and back: an entry that is not intact is ignored."""

import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from shoal.core.http import Headers
from shoal.core.model import NOTHING
from shoal.core.secrets import secret_headers
from shoal.fetch.cache.rules import CACHEABLE, MAX_LIFETIME, StoragePolicy

FORMAT_VERSION = 1  # version of the format; others are not read
COMPRESSION_LEVEL = 4  # of compression: a third of the default's time, for 4 % more bytes


class CacheEntry(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    """A stored response. Its age is `age` plus the time since it was stored."""

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


class VaryIndex(msgspec.Struct, frozen=True, tag="signpost", array_like=True):
    """Marks a URL whose responses depend on request headers; `names` are part of their keys."""

    form: int
    url: str
    names: list[str]


_decoder = msgspec.msgpack.Decoder(CacheEntry | VaryIndex)
_encode = msgspec.msgpack.Encoder().encode


def key_of(url: str, names: Sequence[str] = (), sent: Mapping[str, str] = NOTHING, *, realm: str = "") -> str:
    """Return the key of the response to a GET: its URL, the headers in Vary, and who may read it.

    Requests with the same secret headers share responses with each other, and with no other request.
    """
    shown = (f"{name}={value}" for name, value in sorted(secret_headers(sent).items()))
    parts = ["GET", realm, url, *(f"{name}:{sent.get(name, '')}" for name in names), *shown]
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=20).hexdigest()


def pack(url: str, status: int, fields: list[tuple[str, str]], body: bytes, policy: StoragePolicy) -> bytes:
    """Encode a response."""
    fresh = None if policy.fresh is None else policy.fresh.total_seconds()
    packed = zlib.compress(body, COMPRESSION_LEVEL)
    return _encode(
        CacheEntry(FORMAT_VERSION, url, status, fields, policy.age.total_seconds(), fresh, len(body), packed)
    )


def pack_vary_index(url: str, names: Sequence[str]) -> bytes:
    """Encode the Vary index of a URL."""
    return _encode(VaryIndex(FORMAT_VERSION, url, list(names)))


def unpack(data: bytes, url: str, most: int) -> CacheEntry | VaryIndex | None:
    """Decode the value of a URL's key; None unless it is intact, of this URL, and not too large."""
    try:
        found: Any = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if found.form != FORMAT_VERSION or found.url != url:
        return None
    if isinstance(found, VaryIndex):
        return found
    sound = found.status in CACHEABLE and 0 <= found.size <= most
    return found if sound and _is_time(found.age) and _is_time(found.fresh or 0.0) else None


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= MAX_LIFETIME.total_seconds()  # False for infinity and NaN


def body_of(entry: CacheEntry) -> bytes | None:
    """Return the body; None unless it has exactly the stored size; never decompresses more than that."""
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(entry.packed, entry.size + 1)
    except zlib.error:
        return None
    return body if unpacking.eof and len(body) == entry.size and not unpacking.unused_data else None
