"""What one worker has seen lately, in bounded memory."""

from collections.abc import Hashable

LATELY = 100_000


class Seen:
    """Remembers the last hundred thousand things at least, and twice as many at most."""

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: set[int] = set()
        self._before: set[int] = set()

    def add(self, thing: Hashable) -> bool:
        """Remember a thing; tell whether it is new."""
        digest = hash(thing)  # of text: different in every process, so a site cannot aim at it
        if digest in self._now:
            return False
        is_new = digest not in self._before
        self._now.add(digest)
        if len(self._now) >= LATELY:
            self._now, self._before = set(), self._now
        return is_new

    def __contains__(self, thing: Hashable) -> bool:
        digest = hash(thing)
        return digest in self._now or digest in self._before
