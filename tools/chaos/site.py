"""The site that is crawled: a tree of pages on several hosts, all of it known beforehand."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

FAN_OUT = 5  # links of a page to pages that nobody else links to


class Trouble(StrEnum):
    """What is the matter with a page."""

    NONE = "none"
    SLOW = "slow"  # its answer takes long
    BROKEN = "broken"  # its first answer is a 500
    BUSY = "busy"  # its first answer is a 429 with a Retry-After
    GONE = "gone"  # a 404 for ever: a dead letter, and no item


@dataclass(frozen=True, slots=True)
class Site:
    """So many pages, spread over so many hosts; page 0 leads to all others."""

    pages: int
    hosts: int

    def host(self, page: int) -> int:
        """Return the number of the host that has a page."""
        return page % self.hosts

    def links(self, page: int) -> range:
        """Return the pages that a page links to."""
        first = FAN_OUT * page + 1
        return range(min(first, self.pages), min(first + FAN_OUT, self.pages))

    def parent(self, page: int) -> int | None:
        """Return the one page that links to a page."""
        return (page - 1) // FAN_OUT if page else None

    def trouble(self, page: int) -> Trouble:
        """Return what is the matter with a page; what is gone leads nowhere, so that the tree stays whole."""
        if page % 23 == 22 and not self.links(page):
            return Trouble.GONE
        if page % 61 == 17:
            return Trouble.BUSY
        if page % 19 == 7:
            return Trouble.BROKEN
        return Trouble.SLOW if page % 11 == 4 else Trouble.NONE

    def gone(self) -> Iterator[int]:
        """Yield the pages that must end as dead letters."""
        return (page for page in range(self.pages) if self.trouble(page) is Trouble.GONE)
