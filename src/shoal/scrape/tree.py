"""Parse HTML with bounded memory and time: a page can be crafted to grow a thousandfold when it is parsed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time

from turbohtml import Document, IncrementalParser, parse

from shoal.core.errors import ParseFailed

MAX_TEXT = 8_000_000  # characters
MAX_TREE = 384 << 20  # bytes
MAX_SECONDS = 10.0  # of processor time

# By the HTML standard, formatting elements that were left open are reopened in every paragraph with all
# their attributes: 60 KB of HTML can take 3 GB. One tag adds at most the 512 elements that the parser nests,
# and 24 bytes for every attribute before it; an attribute has at least two characters.
PER_TAG = 512 * 128
PER_ATTRIBUTE = 24
SEPARATORS = b" \t\n\f\r/\"'"  # one of them precedes every attribute
MAX_SIMPLE = 640 << 20  # worst-case bytes of a page parsed in one go: a closer check would cost every page
SIMPLE_LENGTH = 26_000  # characters, which never take more than MAX_SIMPLE
LONG = 400_000  # characters, about three milliseconds in which no other thread runs
CHUNK = 1 << 16  # characters, about half a millisecond
CHUNK_GROWTH = 96 << 20  # bytes


def parse_html(text: str, data: bytes | None = None) -> Document:
    """Return the tree of a page; raises ParseFailed if it takes too much memory or time.

    `data` is the same text in UTF-8 if the caller has it: encoding takes longer than scanning.
    """
    return parse(text, positions=False) if is_simple(text, data) else _parse_in_chunks(text)


def is_simple(text: str, data: bytes | None = None) -> bool:
    """Tell whether a page cannot exceed the limits, so that it may be parsed in one go."""
    length = len(text)
    if not SIMPLE_LENGTH < length <= LONG:
        return length <= LONG
    tags = text.count("<")
    if tags * max_growth(length) <= MAX_SIMPLE:
        return True
    # Counting attributes takes longer, so only pages with many tags are checked for it.
    attributes = max_attributes(data or _utf8(text))
    return tags * max_growth(length, attributes) <= MAX_SIMPLE


def max_attributes(data: bytes) -> int:
    """Return an upper bound for the number of attributes: the number of separators."""
    return len(data) - len(data.translate(None, SEPARATORS))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


def max_growth(position: int, attributes: int = MAX_TEXT) -> int:
    """Return the maximum bytes that a tag at a position can add to a page with this many attributes."""
    return PER_TAG + PER_ATTRIBUTE * min(position // 2, attributes)


def _parse_in_chunks(text: str) -> Document:
    """Parse in chunks, so that other threads can run, and stop when the tree grows too large."""
    if len(text) > MAX_TEXT:
        raise _parse_error(f"has {len(text):,} characters; the limit is {MAX_TEXT:,}")
    parser = IncrementalParser(positions=False)
    until = thread_time() + MAX_SECONDS
    with _memory_meter() as resident:
        grown, used = 0, resident()
        for chunk in _chunks(text, max_attributes(_utf8(text))):
            parser.feed(chunk)
            before, used = used, resident()
            grown += max(0, used - before)
            if grown > MAX_TREE:
                raise _parse_error(f"takes more than {MAX_TREE >> 20} MB when it is parsed")
            if thread_time() > until:
                raise _parse_error(f"takes more than {MAX_SECONDS:g} s to parse")
    return parser.close()


def _chunks(text: str, attributes: int) -> Iterator[str]:
    """Cut a text so that no chunk can grow far: later chunks have fewer tags."""
    start, size = 0, 1024
    while start < len(text):
        tags = text.count("<", start, start + size)
        max_tags = max(1, CHUNK_GROWTH // max_growth(start + size, attributes))
        if tags > max_tags and size > 1:
            size //= 2
            continue
        yield text[start : start + size]
        start += size
        if 2 * tags <= max_tags:
            size = min(2 * size, CHUNK)


@contextmanager
def _memory_meter() -> Iterator[Callable[[], int]]:
    """Yield a function that returns this process's resident memory in bytes, or 0 if it is unknown."""
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        yield lambda: 0
        return
    size = os.sysconf("SC_PAGE_SIZE")
    try:
        yield lambda: int(os.pread(statm, 100, 0).split()[1]) * size
    finally:
        os.close(statm)


def _parse_error(reason: str) -> ParseFailed:
    return ParseFailed(f"The page {reason}; read page.html or page.body instead")
