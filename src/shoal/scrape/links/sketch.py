"""Estimate the number of distinct texts from the bits that their hashes hit; two sketches can be merged."""

from hashlib import blake2b
from math import inf, log


class Sketch:
    """Counts distinct texts. Without the key, a site cannot choose texts that hit the same bit."""

    __slots__ = ("_bits", "_key", "hit")

    def __init__(self, bits: int, key: bytes) -> None:
        self._bits, self._key = bits, key
        self.hit = 0

    def add(self, text: str) -> None:
        """Count a text, once if it is added again."""
        digest = blake2b(text.encode(errors="replace"), key=self._key, digest_size=8).digest()
        self.hit |= 1 << (int.from_bytes(digest, "big") % self._bits)

    def count_hit(self) -> int:
        """Return the number of bits that were hit."""
        return self.hit.bit_count()

    @property
    def estimate(self) -> float:
        """The estimated count; infinite when every bit is hit."""
        return self.estimate_with(0)

    def estimate_with(self, others: int) -> float:
        """The estimated count of the union with another sketch's bits."""
        free = self._bits - (self.hit | others).bit_count()
        return self._bits * log(self._bits / free) if free > 0 else inf

    def to_bytes(self) -> bytes:
        """Return the bits as bytes."""
        return self.hit.to_bytes(self._bits // 8, "big")

    def from_bytes(self, data: bytes) -> int:
        """Return the bits of another sketch; 0 if its size differs from this one's."""
        return int.from_bytes(data, "big") if len(data) == self._bits // 8 else 0
