"""How the keys of notes, and the fences of claims, are stored."""

from collections.abc import Iterable
from hashlib import blake2b

from shoal.queue.contract import Fence


def hash_of(key: str) -> bytes:
    """Return the hash that identifies a key within its topic."""
    return blake2b(key.encode(), digest_size=16).digest()


def fence_columns(fence: Fence | None) -> tuple[str | None, bytes | None, int | None]:
    """Return the arguments that fence a claim."""
    if fence is None:
        return None, None, None
    topic, key, stamp = fence
    return topic, hash_of(key), stamp


def hashes_of(keys: Iterable[str]) -> list[bytes]:
    """Return the hashes of several keys."""
    return [hash_of(key) for key in keys]
