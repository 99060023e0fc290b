"""How text becomes a tree, within bounds: a page may be written to grow a thousandfold when it is parsed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time

from turbohtml import Document, IncrementalParser, parse

from shoal.core.errors import ParseFailed

MAX_TEXT = 8_000_000  # characters
MAX_TREE = 384 << 20  # bytes
MAX_SECONDS = 10.0  # of processor time

# Formatting elements that were left open are opened again in every paragraph, attributes and all, as the
# standard has it: 60 KB can be made to take 3 GB. What one tag can bring is the 512 elements that the parser
# nests at most, and 24 bytes for every attribute before it, which has two characters at least.
PER_TAG = 512 * 128
PER_ATTRIBUTE = 24
SEPARATORS = b" \t\n\f\r/\"'"  # one of which stands before every attribute
EASY = 640 << 20  # bytes that a small page may be made to take at worst: looking closer costs every page
EASY_LENGTH = 26_000  # characters, which cannot take more, whatever they are
LONG = 400_000  # characters, three milliseconds in which no other thread gets its turn
PIECE = 1 << 16  # characters, about half a millisecond
PIECE_GROWTH = 96 << 20


def parse_html(text: str, data: bytes | None = None) -> Document:
    """Return the tree of a page; raises ParseFailed for one that takes too much memory or time.

    `data` is the same in UTF-8, where that is at hand: to make it takes longer than to look through it.
    """
    return parse(text, positions=False) if is_easy(text, data) else _parse_carefully(text)


def is_easy(text: str, data: bytes | None = None) -> bool:
    """Tell whether a page cannot grow beyond bounds, so that it may be parsed in one go."""
    length = len(text)
    if not EASY_LENGTH < length <= LONG:
        return length <= LONG
    tags = text.count("<")
    if tags * most_growth(length) <= EASY:
        return True
    # Counting attributes takes longer, so that is done only for pages with many tags.
    attributes = most_attributes(data or _utf8(text))
    return tags * most_growth(length, attributes) <= EASY


def most_attributes(data: bytes) -> int:
    """Return how many attributes a page can have: no more than what must stand before one."""
    return len(data) - len(data.translate(None, SEPARATORS))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


def most_growth(position: int, attributes: int = MAX_TEXT) -> int:
    """Return the most bytes that a tag can add at a position of a page with so many attributes."""
    return PER_TAG + PER_ATTRIBUTE * min(position // 2, attributes)


def _parse_carefully(text: str) -> Document:
    """Parse piece by piece, so that other threads get their turn, and stop when it grows too much."""
    if len(text) > MAX_TEXT:
        raise _refusal(f"has {len(text):,} characters, and {MAX_TEXT:,} are the most that are parsed")
    parser = IncrementalParser(positions=False)
    until = thread_time() + MAX_SECONDS
    with _memory() as resident:
        grown, held = 0, resident()
        for piece in _pieces(text, most_attributes(_utf8(text))):
            parser.feed(piece)
            before, held = held, resident()
            grown += max(0, held - before)
            if grown > MAX_TREE:
                raise _refusal(f"takes more than {MAX_TREE >> 20} MB when it is parsed")
            if thread_time() > until:
                raise _refusal(f"takes more than {MAX_SECONDS:g} s to parse")
    return parser.close()


def _pieces(text: str, attributes: int) -> Iterator[str]:
    """Cut a text so that no piece can grow far: the further in, the fewer tags."""
    start, size = 0, 1024
    while start < len(text):
        tags = text.count("<", start, start + size)
        most = max(1, PIECE_GROWTH // most_growth(start + size, attributes))
        if tags > most and size > 1:
            size //= 2
            continue
        yield text[start : start + size]
        start += size
        if 2 * tags <= most:
            size = min(2 * size, PIECE)


@contextmanager
def _memory() -> Iterator[Callable[[], int]]:
    """Give what tells how many bytes of memory this process holds: zero where the system does not say."""
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


def _refusal(reason: str) -> ParseFailed:
    return ParseFailed(f"The page {reason}; read page.html or page.body instead")
