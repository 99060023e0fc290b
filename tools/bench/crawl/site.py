"""The pages that everybody fetches: a manual of made-up pages, the same every time.

An index leads to the sections, a section to its pages, and pages to one another.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from posixpath import dirname, relpath

from tools.bench.crawl.blocks import framed, menu, part
from tools.bench.crawl.words import heading

VERSION = 1  # of the pages; raise it when they change, so that old ones are made anew
PAGES = 5_000
PER_SECTION = 100
SMALLEST, LARGEST, USUAL = 9_500, 56_000, 14_000  # bytes
FEWEST_LINKS, MOST_LINKS, USUAL_LINKS = 16, 160, 40
INDEX = "/index.html"
ABROAD = ("https://example.org/spec", "https://example.com/a?b=1&c=2", "mailto:docs@example.org")


@dataclass(frozen=True, slots=True)
class Truth:
    """What a page is known to hold."""

    path: str
    title: str
    links: int

    def below(self, folder: str) -> "Truth":
        """Return the same page in a folder."""
        return replace(self, path=f"/{folder}{self.path}")


class Manual:
    """A manual of so many pages. What a page looks like depends on its number alone."""

    def __init__(self, pages: int = PAGES) -> None:
        self._sections = max(1, pages // PER_SECTION)
        self.paths = [INDEX, *(self._path(number) for number in range(1, pages))]

    def page(self, number: int) -> tuple[Truth, str]:
        """Return what a page holds, and the page."""
        dice = random.Random(f"manual {number}")
        title = f"{heading(dice)} — {number} — Manual 3.2"
        links = self._children(number)
        wanted = int(dice.triangular(FEWEST_LINKS, MOST_LINKS, USUAL_LINKS))
        links += self._others(dice, number, max(wanted - len(links), 10))
        aside = len(links) * 2 // 3
        size = int(dice.triangular(SMALLEST, LARGEST, USUAL))
        html = framed(title, menu(dice, links[:aside]), _article(dice, links[aside:], size))
        return Truth(self.paths[number], title, html.count("<a ")), html

    def _path(self, number: int) -> str:
        if number <= self._sections:
            return f"/section-{number:03d}/index.html"
        return f"/section-{1 + number % self._sections:03d}/page-{number:05d}.html"

    def _children(self, number: int) -> list[str]:
        """Return the links that lead down the tree, so that every page can be found."""
        if number == 0:
            below = range(1, self._sections + 1)
        elif number <= self._sections:
            below = range(number - 1 + self._sections, len(self.paths), self._sections)
        else:
            below = range(0)
        here = dirname(self.paths[number])
        return [relpath(self.paths[one], here) for one in below if one > number]

    def _others(self, dice: random.Random, number: int, count: int) -> Iterator[str]:
        """Yield links to any pages, spelled in the ways that people do, and a few that lead abroad."""
        here = dirname(self.paths[number])
        for _ in range(count):
            path = dice.choice(self.paths)
            kind = dice.random()
            if kind < 0.6:
                yield relpath(path, here)
            elif kind < 0.8:
                yield path
            elif kind < 0.97:
                yield f"{path}#part-{dice.randint(1, 9)}"
            else:
                yield dice.choice(ABROAD)


def _article(dice: random.Random, links: list[str], size: int) -> str:
    """Return the parts of a page until all links are placed and it is about as large as it should be."""
    left = iter(links)
    parts: list[str] = []
    while True:
        some = list(islice(left, dice.randint(1, 6)))
        if not some and sum(map(len, parts)) + 240 * len(links) > size:
            return "\n".join(parts)
        parts.append(part(dice, len(parts) + 1, some))
