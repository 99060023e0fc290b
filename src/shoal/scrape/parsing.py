"""Turns the body of a response into text and a tree, within bounded time and memory."""

import errno
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from operator import call
from pathlib import Path
from time import thread_time
from typing import Any, TypeVar, cast

import turbohtml
from turbohtml.detect import detect

from shoal.core.errors import ParseFailed

DECLARED_WITHIN = 1024  # bytes, by the HTML standard
SAMPLE = 16 << 10  # bytes used for detection, which takes about 0.1 ms per 1,000

_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (b"\xff\xfe\x00\x00", "utf-32le"),
    (b"\x00\x00\xfe\xff", "utf-32be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16le"),
    (b"\xfe\xff", "utf-16be"),
)
_MARK_STARTS = frozenset({*(mark[:2] for mark, _ in _MARKS), b"<\x00", b"\x00<"})
_LABEL = re.compile(r"[a-z0-9_.:-]{1,40}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(rb"""<meta\s[^>]{0,400}?charset\s*=\s*["']?\s*([^\s"'/>;]+)""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml\s[^>]{0,400}?encoding\s*=\s*["']([^"'>]+)""", re.IGNORECASE)
_DECLARING = re.compile(rb"charset", re.IGNORECASE)
_SHIFTED = b"\x1b$"  # seven-bit Japanese, which would be taken for ASCII
_SINGLE_BYTE = ("windows-125", "iso-8859", "koi8")
# The standard decodes these to nothing, because scripts were hidden in them; Shoal never executes a script.
_RETIRED = {"iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr", "hz-gb-2312": "hz"}
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f\ufffd]")


_TEXT = re.compile(
    r"text/.*|application/(?:.*[+.-])?"
    r"(?:x?html|xml|xml-dtd|json|ndjson|jsonl|jsonlines|javascript|yaml|text|csv)"
)


def names_text(kind: str) -> bool:
    """Return whether a type without parameters is HTML, XML, JSON or other text."""
    return _TEXT.fullmatch(kind) is not None


def is_binary(body: bytes) -> bool:
    """Return whether a body is not text."""
    return body.startswith(b"%PDF-") or (b"\0" in body[:SAMPLE] and _find_mark(body) is None)


def read_text(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return a page's text and the name of the encoding used."""
    mark = _find_mark(body)
    declared = mark or _in_header(content_type[:200]) or _in_page(body[:DECLARED_WITHIN])
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        name = _non_utf8_name(body, mark, declared, error.start)
        return _decode(body, name), name
    if _is_utf8(body, declared):
        return text.removeprefix("\ufeff"), "utf-8"
    name = declared or _detect(body[:SAMPLE])
    return _decode(body, name), name


@lru_cache(maxsize=256)
def known_name(label: str) -> str | None:
    """Return the encoding of a label by the WHATWG standard, in lower case; None if it is unknown."""
    label = label.strip().lower()
    if label in _RETIRED:
        return label
    try:
        name = turbohtml.parse(b"", encoding=label).encoding if _LABEL.fullmatch(label) else None
    except LookupError:
        return None
    return None if name is None or name == "replacement" else name.lower()


def _find_mark(body: bytes) -> str | None:
    if body[:2] not in _MARK_STARTS:
        return None
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    # The start of markup is as good as a byte order mark.
    if body.startswith(b"\x00<\x00"):
        return "utf-16be"
    return "utf-16le" if body.startswith(b"<\x00") and body[3:4] == b"\x00" else None


@lru_cache(maxsize=256)
def _in_header(content_type: str) -> str | None:
    found = _CHARSET.search(content_type)
    return known_name(found[1]) if found else None


def _in_page(head: bytes) -> str | None:
    found = _XML.match(head) or _META.search(_COMMENT.sub(b"", head))
    name = known_name(found[1].decode("latin-1")) if found else None
    # The declaration was found by reading bytes, so the page cannot be UTF-16.
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _is_utf8(body: bytes, declared: str | None) -> bool:
    """Tell whether a body that is valid UTF-8 should be decoded as UTF-8, whatever was declared."""
    if declared == "utf-8":
        return True
    if declared is None:
        return _SHIFTED not in body
    # Text in a single-byte encoding is never valid UTF-8 by chance: the declaration is a server's default.
    wrong = declared.startswith(_SINGLE_BYTE) and not body.isascii()
    return wrong or _is_false_utf16(body, declared)


def _is_false_utf16(body: bytes, declared: str) -> bool:
    if not declared.startswith("utf-16") or b"\x00" in body[:DECLARED_WITHIN]:
        return False
    return b"<" in body[:DECLARED_WITHIN] or body.isascii()


def _non_utf8_name(body: bytes, mark: str | None, declared: str | None, first: int) -> str:
    """Return the encoding of a body that is not valid UTF-8 from byte `first` on."""
    if mark is not None:
        return mark
    # A few invalid bytes are damage. Invalid bytes only mean a wrong declaration.
    if declared == "utf-8" and _is_mostly_utf8(body, times=0):
        return declared
    if declared in (None, "utf-8") or _is_false_utf16(body, declared):
        return _guess(body, first)
    return declared


def _guess(body: bytes, first: int) -> str:
    if _is_mostly_utf8(body, times=4):
        return "utf-8"
    late = _in_page(body[:SAMPLE])
    return late if late and late != "utf-8" else _detect(body[max(0, first - DECLARED_WITHIN) :][:SAMPLE])


def _detect(sample: bytes) -> str:
    # The declaration has been considered already, and here it would win again.
    name = known_name(detect(_DECLARING.sub(b"", sample)).encoding or "")
    return name if name and name != "utf-8" else "windows-1252"


def _is_mostly_utf8(body: bytes, *, times: int) -> bool:
    """Tell whether the body has more than `times` non-ASCII UTF-8 characters per invalid byte."""
    text = body[: 16 * SAMPLE].decode(errors="replace")
    return len(_BEYOND_ASCII.findall(text)) > times * text.count("\ufffd")


def _decode(body: bytes, name: str) -> str:
    if name.startswith("utf-32") or name in _RETIRED:
        text = body.decode(_RETIRED.get(name, name), errors="replace")
    else:
        text = body.decode(f"whatwg-{name}")
    return text.removeprefix("\ufeff")


if sys.platform == "linux":
    from resource import RLIMIT_DATA, getrlimit, setrlimit

Result = TypeVar("Result")

PROBE = 64 << 20  # bytes: more than the allocator has in reserve
READ_AGAIN = 32  # calls: reading the size takes longer than the rest


class GrowthLimit:
    """Calls functions implemented in C, and raises MemoryError if this process would grow by more bytes.

    It takes a few microseconds, however much a function allocates. Only where `can_limit_memory()`.
    """

    def __init__(self, growth: int) -> None:
        self._growth = growth
        self._calls = 0
        self._limit = 0

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function within the limit, which is narrower if the process grew during the last calls."""
        if self._calls % READ_AGAIN == 0:
            self._limit = _data_size() + self._growth
        self._calls += 1
        soft, hard = before = getrlimit(RLIMIT_DATA)
        limit = self._limit if soft < 0 else min(self._limit, soft)
        # All of it is one call into C, in which no other thread runs Python: the limit is for the whole
        # process, and a browser that is started meanwhile would inherit it.
        steps: tuple[Callable[[], Any], ...] = (
            partial(setrlimit, RLIMIT_DATA, (limit, hard)),
            function,
            partial(setrlimit, RLIMIT_DATA, before),
        )
        try:
            results: list[Any] = list(map(call, steps))
        except BaseException:
            setrlimit(RLIMIT_DATA, before)
            self._calls = 0
            raise
        return cast("Result", results[1])


@cache
def can_limit_memory() -> bool:
    """Tell whether the kernel enforces the limit: Linux does, some sandboxes do not."""
    if sys.platform != "linux":
        return False
    try:
        allocate = partial(mmap.mmap, -1, PROBE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        GrowthLimit(PROBE // 2).call(allocate).close()
    except MemoryError:
        return True
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False


def _data_size() -> int:
    """Return the bytes that count towards the limit."""
    return int(Path("/proc/self/statm").read_bytes().split()[5]) * mmap.PAGESIZE


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
    return ParseFailed(f"The page {reason}; read page.html or page.body instead, or leave it out with skip=")
