"""How much a host may send before it is cut off."""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one fetch may cost; sizes in bytes. Its time is in the request."""

    max_body: int = 32 * MIB  # after decompression
    max_header_bytes: int = 256 * KIB
    max_header_count: int = 1_000
    max_redirects: int = 10


DEFAULT_LIMITS = Limits()
