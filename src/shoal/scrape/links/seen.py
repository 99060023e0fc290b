"""What one worker has seen recently, in bounded memory."""

from collections.abc import Hashable

MIN_REMEMBERED = 100_000


class SeenSet:
    """Remembers at least the last MIN_REMEMBERED values, and at most twice as many."""

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: set[int] = set()
        self._before: set[int] = set()

    def add(self, value: Hashable) -> bool:
        """Remember a value; tell whether it is new."""
        digest = hash(value)  # of text: different in every process, so a site cannot cause collisions
        if digest in self._now:
            return False
        is_new = digest not in self._before
        self._now.add(digest)
        if len(self._now) >= MIN_REMEMBERED:
            self._now, self._before = set(), self._now
        return is_new

    def __contains__(self, value: Hashable) -> bool:
        digest = hash(value)
        return digest in self._now or digest in self._before
