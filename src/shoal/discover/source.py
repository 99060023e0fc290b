"""What a source finds: tasks, and what it had to refuse, each refusal with its place and its reason."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

from shoal.core.errors import InvalidUrl, printable, shorten
from shoal.core.model import Task
from shoal.core.urls import canonical

MOST_SHOWN = 200  # characters of a refused text that are kept
MOST_LOOKED_AT = 8192

REPLACED = "\ufffd"  # what stands for bytes that are no text
_BREAK = re.compile(r"[\t\r\n]")
_USERINFO = re.compile(r"//[^/?#\s@]*@")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that could not become a task: where it stands, its beginning, and why."""

    where: str
    text: str
    reason: str


Found = Task | Refusal


class Place(Protocol):
    """Whoever can say where it has got to."""

    @property
    def where(self) -> str:
        """Where the last thing that was found stands, such as "urls.csv:17"."""
        ...


class SyncSource(Place, Iterable[Found], Protocol):
    """Finds tasks without waiting for a network."""


class AsyncSource(Place, AsyncIterable[Found], Protocol):
    """Finds tasks on a network or in a queue."""


Source = SyncSource | AsyncSource


async def each(source: Source) -> AsyncIterator[Found]:
    """Yield what a source of either kind finds."""
    if isinstance(source, AsyncIterable):
        async for found in source:
            yield found
    else:
        for found in source:
            yield found


def checked(url: str) -> str:
    """Return the canonical URL; raises InvalidUrl, also where the rules of URLs would mend in silence."""
    if not url.isprintable() and _BREAK.search(url.strip()):
        raise InvalidUrl(url, "a tab or the end of a line stands in it; one URL a line, or name the format")
    if REPLACED in url:
        raise InvalidUrl(url, "it holds what is not UTF-8; save the file as UTF-8, or write %XX")
    return canonical(url)


def refused(where: str, text: str, error: Exception) -> Refusal:
    """Return the refusal of a text, for the reason that an error gives."""
    if isinstance(error, InvalidUrl):
        return Refusal(where, shown(error.url), error.reason)
    return Refusal(where, shown(text), str(error))


def shown(text: str) -> str:
    """Return a text that a terminal and a log can bear: short, printable, and without a password."""
    short = shorten(_USERINFO.sub("//…@", text[:MOST_LOOKED_AT]), MOST_SHOWN)
    return printable(short)
