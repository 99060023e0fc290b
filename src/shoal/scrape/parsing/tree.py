"""Parse HTML with bounded memory and time: a page can be crafted to grow a thousandfold when it is parsed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import thread_time

import turbohtml

from shoal.core.errors import ParseFailed
from shoal.scrape.parsing.memory_limit import GrowthLimit, can_limit_memory

MAX_TEXT = 8_000_000  # characters
MAX_TREE = 384 << 20  # bytes
MAX_SECONDS = 10.0  # of processor time

# By the HTML standard, formatting elements that were left open are reopened in every paragraph with all
# their attributes: 60 KB of HTML can take 3 GB. One tag adds at most the 512 elements that the parser nests,
# and 24 bytes for every attribute before it; an attribute has at least two characters.
PER_TAG = 512 * 128
PER_ATTRIBUTE = 24
SEPARATORS = b" \t\n\f\r/\"'"  # one of them precedes every attribute
SHORT = 20_000  # characters, which never take more than MAX_TREE
LONG = 3_000_000  # characters, about thirty milliseconds in which no other thread runs
CHUNK = 1 << 16  # characters, about half a millisecond
CHUNK_GROWTH = 96 << 20  # bytes

_ordinary = GrowthLimit(256 << 20)  # bytes: three times what an ordinary page of LONG characters takes


def parse_html(text: str) -> "turbohtml.Document":
    """Return the tree of a page; raises ParseFailed if it takes too much memory or time."""
    parse_text = partial(turbohtml.parse, text, positions=False)
    if len(text) <= SHORT:
        return parse_text()
    if len(text) <= LONG and can_limit_memory():
        try:
            return _ordinary.call(parse_text)
        except MemoryError:
            pass
    return _parse_in_chunks(text)


def max_attributes(data: bytes) -> int:
    """Return an upper bound for the number of attributes: the number of separators."""
    return len(data) - len(data.translate(None, SEPARATORS))


def max_growth(position: int, attributes: int = MAX_TEXT) -> int:
    """Return the maximum bytes that a tag at a position can add to a page with this many attributes."""
    return PER_TAG + PER_ATTRIBUTE * min(position // 2, attributes)


def _parse_in_chunks(text: str) -> "turbohtml.Document":
    """Parse in chunks, so that other threads can run, and stop when the tree grows too large."""
    if len(text) > MAX_TEXT:
        raise _parse_error(f"has {len(text):,} characters; the limit is {MAX_TEXT:,}")
    parser = turbohtml.IncrementalParser(positions=False)
    attributes = max_attributes(text.encode(errors="replace"))
    until = thread_time() + MAX_SECONDS
    with _memory_meter() as resident:
        grown, used = 0, resident()
        for chunk in _chunks(text, attributes):
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
