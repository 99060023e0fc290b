"""The links that one worker has let in recently, in bounded memory."""

MIN_REMEMBERED = 100_000

_DEPTH_BITS = 24
_MAX_DEPTH = (1 << _DEPTH_BITS) - 1
_NO_SECTION = 0


class SeenLinks:
    """Remembers at least the last MIN_REMEMBERED links by their hashes, and at most twice as many.

    Of a link that leads from one page of a section to another it knows the number of the section and the
    depth, until a second page of the section links to it.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def add(self, link: int, section: int = _NO_SECTION, depth: int = 0) -> bool:
        """Remember a link; tell whether it is new."""
        if link in self._now:
            return False
        known = self._before.get(link)
        # One number in place of a tuple: a third of the memory.
        self._now[link] = section << _DEPTH_BITS | min(depth, _MAX_DEPTH) if known is None else known
        if len(self._now) >= MIN_REMEMBERED:
            self._now, self._before = {}, self._now
        return known is None

    def __contains__(self, link: int) -> bool:
        return link in self._now or link in self._before

    def take_cross_link(self, link: int, section: int, depth: int) -> bool:
        """Tell, once, whether a link of a page of this section and depth was found on another page of it.

        A link up to where the page was found is part of any maze: it tells nothing.
        """
        links = self._now if link in self._now else self._before
        found = links.get(link, _NO_SECTION)
        if found >> _DEPTH_BITS != section or found & _MAX_DEPTH < depth:
            return False
        links[link] = _NO_SECTION
        return True
