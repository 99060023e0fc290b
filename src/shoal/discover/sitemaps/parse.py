"""Parse a file: an XML sitemap or feed, or a list of URLs, plain or gzipped, detected by content."""

from collections.abc import Iterable, Iterator
from io import BufferedReader, RawIOBase, TextIOWrapper
from itertools import chain
from typing import Any, cast

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.files.lines import read_bounded
from shoal.discover.sitemaps.entry import SitemapEntry
from shoal.discover.sitemaps.unpack import read_chunks
from shoal.discover.sitemaps.xml import MAX_TEXT, XmlReader

BATCH = 1_000  # entries of a list per batch

_BOM, _BLANK = b"\xef\xbb\xbf", b" \t\r\n"
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
_WEB = ("http://", "https://")


def entries_of(body: bytes, max_bytes: int) -> Iterator[list[SitemapEntry]]:
    """Yield the entries of a file in batches; raises ParseFailed, or TooLarge beyond `max_bytes`."""
    chunks = read_chunks(body, max_bytes)
    first = _skip_blank(chunks)
    if not first:
        raise ParseFailed("it is empty")
    whole = chain([first], chunks)
    if first[:1] == b"<" or first[:2] in _UTF16:
        return XmlReader().entries(whole)
    return _parse_list(whole)


def _skip_blank(chunks: Iterator[bytes]) -> bytes:
    # XML must begin with its declaration, but many sites send blank lines first.
    for chunk in chunks:
        if begun := chunk.removeprefix(_BOM).lstrip(_BLANK):
            return begun
    return b""


def _parse_list(chunks: Iterable[bytes]) -> Iterator[list[SitemapEntry]]:
    """Yield the entries of a list of URLs; those before an error are yielded before it is raised."""
    batch: list[SitemapEntry] = []
    try:
        for url in _urls(chunks):
            batch.append(SitemapEntry(loc=url[:MAX_TEXT]))
            if len(batch) >= BATCH:
                yield batch
                batch = []
    except (ParseFailed, TooLarge):
        yield batch
        raise
    yield batch


def _urls(chunks: Iterable[bytes]) -> Iterator[str]:
    lines = read_bounded(TextIOWrapper(BufferedReader(_Body(chunks)), "utf-8", errors="replace"))
    texts = (text for line in lines if (text := line.strip()))
    first = next(texts, "")
    if not first.lower().startswith(_WEB):
        raise ParseFailed("it is neither XML nor a list of URLs")
    yield first
    yield from texts


class _Body(RawIOBase):
    """A file over chunks of bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._parts = iter(chunks)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            chunk = next(self._parts, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        target = cast(memoryview, buffer)
        size = min(len(target), len(self._left))
        target[:size] = self._left[:size]
        self._left = self._left[size:]
        return size
