"""Paging: links from one page of a list or manual to the next do not make a crawl deeper."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shoal.core.model import Task

_WORDS = "pages?|paged|pagenum(?:ber)?|pageno|pg|seite|pagina|strona|sida|sivu"
_NAMES = rf"{_WORDS}|p|start|offset|from|skip|begin|first|pos|limitstart"
# The number of a page in a URL, with what marks it as one: ?page=2, /page/2, /list-page-2.html.
_NUMBER = re.compile(
    rf"(?P<query>[?&](?:{_NAMES})=[0-9]+)(?=&|$)|[/_-](?:{_WORDS})[/_-]?[0-9]+/?(?=$|[?.])", re.IGNORECASE
)
_NAME = re.compile(_NAMES, re.IGNORECASE)


def has_one_next(tasks: Iterable[Task], parent: Task) -> bool:
    """Tell whether the tasks of a page's own step are all the same one: the next page."""
    targets = {_name_of(task) for task in tasks if task.step == parent.step}
    return len(targets) == 1


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


def paging_depth(parent: Task) -> int:
    """Return the depth of the next page of a list: that of its parent, or 1 if that is a seed."""
    return max(1, parent.depth)


def _without_number(url: str, number: re.Match[str]) -> str:
    before, after = url[: number.start()], url[number.end() :]
    if number["query"] and number["query"][0] == "?" and after:
        after = "?" + after[1:]
    return (before + after).rstrip("/")


def _name_of(task: Task) -> str:
    """Return what tells the tasks of one step apart."""
    if task.key is not None:
        return task.key
    post = task.request.post if task.request else None
    return f"{task.url} {post!r} {dict(task.payload)}" if post or task.payload else task.url or ""
