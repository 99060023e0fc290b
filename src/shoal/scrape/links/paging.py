"""Paging: links from one page of a list or manual to the next do not make a crawl deeper."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from shoal.core.model import Task

MAX_LINKS = 2  # to the page before and the page after

_WORDS = "pages?|paged|pagenum(?:ber)?|pageno|pg|seite|pagina|strona|sida|sivu"
_NAMES = rf"{_WORDS}|p|start|offset|from|skip|begin|first|pos|limitstart"
# The number of a page in a URL, with what marks it as one: ?page=2, /page/2, /list-page-2.html.
_NUMBER = re.compile(
    rf"(?P<query>[?&](?:{_NAMES})=[0-9]+)(?=&|$)|[/_-](?:{_WORDS})[/_-]?[0-9]+/?(?=$|[?.])", re.IGNORECASE
)
_NAME = re.compile(_NAMES, re.IGNORECASE)


class Chain(NamedTuple):
    """Whether the links of a page to its own step may be paging, and whether they are."""

    is_possible: bool = False  # there are at most two
    is_certain: bool = False  # and they form no tree


NO_CHAIN = Chain()


def read_chain(tasks: Iterable[Task], parent: Task) -> Chain:
    """Tell whether a page follows so few links to its own step that they form a chain, and no tree.

    One link is the next page. Of two links, one must lead back to the page that this one was found on.
    """
    targets: dict[str, Task] = {}
    for task in tasks:
        if task.step == parent.step:
            targets[name_of(task)] = task
            if len(targets) > MAX_LINKS:
                return NO_CHAIN
    if len(targets) < MAX_LINKS:
        return Chain(bool(targets), bool(targets))
    # Without a URL it is the scraper that chooses the next tasks, and no site can make it choose a tree.
    is_certain = any(one.url is None or checksum(one) == parent.found_on for one in targets.values())
    return Chain(is_possible=True, is_certain=is_certain)


def checksum(task: Task) -> int:
    """Return a number for a page, by which the pages that it leads to recognise a link back to it."""
    # Known to the whole fleet, and stored with the task. A site that forges it gets the budget of paging.
    post = task.request.post if task.request else None
    return crc32(f"{task.url}".encode(), crc32(post or b"")) or 1


class PagedList(NamedTuple):
    """The list that a page belongs to: its URL without the page number, and what all its pages begin with."""

    bare: str
    prefix: str

    @classmethod
    def of(cls, url: str) -> "PagedList":
        """Return the list of a page, which may be its first."""
        number = _NUMBER.search(url)
        if number is None:
            folder, _, name = url.partition("?")[0].rstrip("/").rpartition("/")
            return cls(url.rstrip("/"), f"{folder}/{name.partition('.')[0]}")
        return cls(_without_number(url, number), url[: number.start()])

    def contains(self, url: str) -> bool:
        """Tell whether a URL differs from the list's other pages in the page number alone."""
        if not url.startswith(self.prefix):
            return False
        number = _NUMBER.search(url)
        return number is not None and _without_number(url, number) == self.bare


def is_page_number(name: str) -> bool:
    """Tell whether a parameter is called as page numbers are."""
    return _NAME.fullmatch(name) is not None


def _without_number(url: str, number: re.Match[str]) -> str:
    before, after = url[: number.start()], url[number.end() :]
    if number["query"] and number["query"][0] == "?" and after:
        after = "?" + after[1:]
    return (before + after).rstrip("/")


def paging_depth(parent: Task) -> int:
    """Return the depth of the next page of a chain: that of its parent, or 1 if that is a seed."""
    return max(1, parent.depth)


def name_of(task: Task) -> str:
    """Return what tells the tasks of a chain apart."""
    if task.key is not None:
        return task.key
    post = task.request.post if task.request else None
    return f"{task.url} {post!r} {dict(task.payload)}" if post or task.payload else task.url or ""
