"""How many different texts were seen, estimated from which of a few bits they hit; two may become one."""

from hashlib import blake2b
from math import inf, log


class Sketch:
    """Counts texts that may come again. Whoever does not know the key cannot make two of them hit one bit."""

    __slots__ = ("_bits", "_key", "hit")

    def __init__(self, bits: int, key: bytes) -> None:
        self._bits, self._key = bits, key
        self.hit = 0

    def add(self, text: str) -> None:
        """Count a text that may have been seen before."""
        digest = blake2b(text.encode(errors="replace"), key=self._key, digest_size=8).digest()
        self.hit |= 1 << (int.from_bytes(digest, "big") % self._bits)

    @property
    def number(self) -> float:
        """About how many there were; infinite when they can no longer be told apart."""
        return self.number_with(0)

    def number_with(self, others: int) -> float:
        """About how many there were here and where these bits were hit."""
        free = self._bits - (self.hit | others).bit_count()
        return self._bits * log(self._bits / free) if free > 0 else inf

    def written(self) -> bytes:
        """Return it as bytes that another can read."""
        return self.hit.to_bytes(self._bits // 8, "big")

    def read(self, written: bytes) -> int:
        """Return the bits that another has hit; none, if it was not made as this one."""
        return int.from_bytes(written, "big") if len(written) == self._bits // 8 else 0
