"""The results of a source: tasks, and refusals with their position and reason."""

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from shoal.core.errors import InvalidUrl
from shoal.core.http import Request, Response
from shoal.core.model import SECOND, Task
from shoal.core.text import printable, shorten
from shoal.core.urls import canonical

MAX_SHOWN = 200  # characters of a refused text that are kept
MAX_SCANNED = 8192  # characters that are searched for a password

REPLACED = "\ufffd"  # the replacement character for undecodable bytes
_BREAK = re.compile(r"[\t\r\n]")
_USERINFO = re.compile(r"//[^/?#\s@]*@")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry that could not become a task: its position, its beginning, and the reason."""

    where: str
    text: str
    reason: str


Found = Task | Refusal


class Positioned(Protocol):
    """An object that reports its current position."""

    @property
    def where(self) -> str:
        """The position of the last result, such as "urls.csv:17"."""
        ...


class SyncSource(Positioned, Iterable[Found], Protocol):
    """Yields tasks without network access."""


class AsyncSource(Positioned, AsyncIterable[Found], Protocol):
    """Yields tasks from the network or a queue."""


Source = SyncSource | AsyncSource
Fetch = Callable[[Request], Awaitable[Response]]
Rewrite = Callable[[str, str], str | None]  # of a page's URL and the URL that the user typed


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a source is opened with: its own options, and access to the network as the run has it.

    `fetch` uses the proxies and limits of the run; a source leaves `delay` between two requests. `rewrite`
    returns the URL to fetch for a listed page, or None to skip it.
    """

    step: str  # of its tasks
    fetch: Fetch
    since: datetime | None = None  # entries that have not changed since then are left out
    hosts: Sequence[str] = ()  # patterns of other hosts whose pages may be listed
    delay: timedelta = SECOND
    rewrite: Rewrite = lambda url, origin: url


# Opens the addresses of one kind. What it returns yields URLs and tasks; refusals too, if it has a `where`.
OpenSource = Callable[
    [Sequence[str], SourceOptions], "Source | Iterable[str | Task] | AsyncIterable[str | Task]"
]


def check_url(url: str) -> str:
    """Return the canonical URL; raises InvalidUrl, also where the URL standard would silently repair it."""
    if not url.isprintable() and _BREAK.search(url.strip()):
        raise InvalidUrl(url, "it contains a tab or line break; write one URL per line, or set the format")
    if REPLACED in url:
        raise InvalidUrl(url, "it is not valid UTF-8; save the file as UTF-8, or write %XX")
    return canonical(url)


def make_refusal(where: str, text: str, error: Exception) -> Refusal:
    """Return the refusal of a text with the reason of an error."""
    if isinstance(error, InvalidUrl):
        return Refusal(where, shown(error.url), error.reason)
    return Refusal(where, shown(text), str(error))


def shown(text: str) -> str:
    """Return a text that is safe for a terminal or a log: short, printable, and without a password."""
    short = shorten(_USERINFO.sub("//…@", text[:MAX_SCANNED]), MAX_SHOWN)
    return printable(short)
