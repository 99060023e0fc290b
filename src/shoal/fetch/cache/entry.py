"""A stored response as bytes, and back: an entry that is not intact is ignored."""

import zlib
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from shoal.core.http import Headers
from shoal.core.model import NOTHING
from shoal.fetch.cache.rules import CACHEABLE, MAX_LIFETIME, PER_REQUEST, StoragePolicy

FORMAT_VERSION = 2  # version of the format; others are not read
COMPRESSION_LEVEL = 4  # of compression: a third of the default's time, for 4 % more bytes


class CacheEntry(msgspec.Struct, frozen=True, array_like=True):
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


_decoder = msgspec.msgpack.Decoder(CacheEntry)
_encode = msgspec.msgpack.Encoder().encode


def key_of(url: str, sent: Mapping[str, str] = NOTHING, *, realm: str = "") -> str:
    """Return the key of the response to a GET: its URL, the headers that were sent, and who may read it.

    So a response is never returned to a request that its host may have answered differently, and requests
    with other secrets share none. The headers in PER_REQUEST are left out: no response that varies by them is
    stored.
    """
    fields = (f"{name}:{value}" for name, value in sorted(sent.items()) if name not in PER_REQUEST)
    parts = ["GET", realm, url, *fields]
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=20).hexdigest()


def pack(url: str, status: int, fields: list[tuple[str, str]], body: bytes, policy: StoragePolicy) -> bytes:
    """Encode a response."""
    fresh = None if policy.fresh is None else policy.fresh.total_seconds()
    age, packed = policy.age.total_seconds(), zlib.compress(body, COMPRESSION_LEVEL)
    return _encode(CacheEntry(FORMAT_VERSION, url, status, fields, age, fresh, len(body), packed))


def unpack(data: bytes, url: str, most: int) -> CacheEntry | None:
    """Decode the value of a URL's key; None unless it is intact, of this URL, and not too large."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_sound = (
        found.form == FORMAT_VERSION
        and found.url == url
        and found.status in CACHEABLE
        and 0 <= found.size <= most
        and _is_time(found.age)
        and _is_time(found.fresh or 0.0)
    )
    return found if is_sound else None


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
