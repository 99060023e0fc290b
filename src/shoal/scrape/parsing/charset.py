"""Decode a page: by byte order mark, header, declaration, then detection. Never raises."""

import re
from functools import lru_cache

import turbohtml
from turbohtml.detect import detect

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
