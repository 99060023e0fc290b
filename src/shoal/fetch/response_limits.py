"""Limits on what a host may send."""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one fetch; sizes in bytes. The timeout is part of the request."""

    max_body: int = 32 * MIB  # after decompression
    max_header_bytes: int = 256 * KIB
    max_header_count: int = 1_000
    max_redirects: int = 10


DEFAULT_LIMITS = Limits()
