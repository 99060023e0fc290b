"""What a file holds: a sitemap or feed in XML, or a list of URLs, packed or not, told apart by content."""

from collections.abc import Iterable, Iterator
from io import BufferedReader, RawIOBase, TextIOWrapper
from itertools import chain
from typing import Any, cast

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.lines import bounded
from shoal.discover.sitemap_entry import Entry
from shoal.discover.sitemap_xml import MAX_TEXT, XmlReader
from shoal.discover.unpack import pieces

BATCH = 1_000  # entries of a list that are handed on together

_BOM, _BLANK = b"\xef\xbb\xbf", b" \t\r\n"
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
_WEB = ("http://", "https://")


def entries_of(body: bytes, most: int) -> Iterator[list[Entry]]:
    """Yield the entries of a file, a few at a time; raises ParseFailed, or TooLarge beyond `most` bytes."""
    parts = pieces(body, most)
    first = _first(parts)
    if not first:
        raise ParseFailed("it is empty")
    whole = chain([first], parts)
    if first[:1] == b"<" or first[:2] in _UTF16:
        return XmlReader().entries(whole)
    return _listed(whole)


def _first(parts: Iterator[bytes]) -> bytes:
    # XML must begin with its declaration, but many sites send a blank line first.
    for part in parts:
        if begun := part.removeprefix(_BOM).lstrip(_BLANK):
            return begun
    return b""


def _listed(parts: Iterable[bytes]) -> Iterator[list[Entry]]:
    """Yield what a list of URLs holds; those before an error come before it is raised."""
    batch: list[Entry] = []
    try:
        for url in _urls(parts):
            batch.append(Entry(loc=url[:MAX_TEXT]))
            if len(batch) >= BATCH:
                yield batch
                batch = []
    except (ParseFailed, TooLarge):
        yield batch
        raise
    yield batch


def _urls(parts: Iterable[bytes]) -> Iterator[str]:
    lines = bounded(TextIOWrapper(BufferedReader(_Body(parts)), "utf-8", errors="replace"))
    texts = (text for line in lines if (text := line.strip()))
    first = next(texts, "")
    if not first.lower().startswith(_WEB):
        raise ParseFailed("it is neither XML nor a list of URLs")
    yield first
    yield from texts


class _Body(RawIOBase):
    """Pieces as a file."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        room = cast(memoryview, buffer)
        size = min(len(room), len(self._left))
        room[:size] = self._left[:size]
        self._left = self._left[size:]
        return size
