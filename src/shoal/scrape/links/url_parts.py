"""What the URLs of links tell: section, pattern, session ids, and page numbers.

Links from one page of a list or manual to the next do not make a crawl deeper.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shoal.core.model import Task

# Numbers, hexadecimal ids, long runs of letters and digits: what differs between two pages of one template.
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|(?=[a-z]*[0-9])[0-9a-f]{8,}|[A-Za-z0-9_]{24,}|[0-9]+", re.IGNORECASE
)
_SESSION_NAMES = (
    "phpsessid|jsessionid|aspsessionid[a-z]*|sessionid|session_id|sessid|zenid|oscsid|cftoken|cfid"
)
_TOKEN = "(?:[0-9a-f]{16,}|(?=[a-z]*[0-9])[a-z0-9]{24,})"
_SESSION = re.compile(
    rf";(?:{_SESSION_NAMES})=[^/?;]*"
    r"|/\((?:[a-z]\([a-z0-9]{20,}\))+\)(?=/)"
    rf"|(?P<mark>[?&])(?:(?:{_SESSION_NAMES})=[^&]*|s(?:id)?={_TOKEN})(?=&|$)",
    re.IGNORECASE,
)
_MAY_HOLD_SESSION = re.compile(r"[?;(]")


class UrlParts(NamedTuple):
    """A canonical URL in parts."""

    host: str
    path: str
    segments: list[str]
    params: list[tuple[str, str]]

    @property
    def pattern(self) -> str:
        """The URL with ids replaced and only the names of its query: pages of one template share it."""
        names = "&".join(sorted({without_ids(name) for name, _ in self.params}))
        return f"{self.host}{without_ids(self.path)}{names and '?' + names}"

    @property
    def section(self) -> str:
        """The section of the site: the first folder, or the page itself if it has a query, or the root."""
        if len(self.segments) > 1 or (self.segments and self.path.endswith("/")):
            return f"{self.host}/{without_ids(self.segments[0])}/"
        return f"{self.host}{without_ids(self.path)}?" if self.params else f"{self.host}/"


def url_parts(url: str) -> UrlParts:
    """Split a canonical URL."""
    page, _, query = url.partition("?")
    host, _, path = page.split("//", 1)[1].partition("/")
    segments = [segment for segment in path.split("/") if segment]
    return UrlParts(host, f"/{path}", segments, [_split(param) for param in query.split("&") if param])


def without_ids(text: str) -> str:
    """Return a text with everything that looks like an id replaced by "#"."""
    return _ID.sub("#", text)


def strip_session(url: str) -> str:
    """Return a URL without the session ids that sites put into URLs of clients without cookies."""
    if not _MAY_HOLD_SESSION.search(url):
        return url
    bare, found = _SESSION.subn(lambda session: session["mark"] or "", url)
    if not found:
        return url
    page, _, query = bare.partition("?")
    query = "&".join(param for param in query.split("&") if param)
    return f"{page}?{query}" if query else page


def _split(param: str) -> tuple[str, str]:
    name, _, value = param.partition("=")
    return name, value


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
