"""How a page's bytes become text: mark, header, declaration, then what the bytes look like. Never raises."""

import re
from functools import lru_cache

import turbohtml
from turbohtml.detect import detect  # also registers the "whatwg-…" codecs

DECLARED_WITHIN = 1024  # bytes, by the HTML standard
SAMPLE = 16 << 10  # bytes to guess from: guessing takes about 0.1 ms for each 1,000

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
_SHIFTED = b"\x1b$"  # Japanese in seven bits, which would pass for ASCII
_SINGLE_BYTE = ("windows-125", "iso-8859", "koi8")
# The standard has these read as nothing, since scripts were hidden in them; here nothing is ever executed.
_RETIRED = {"iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr", "hz-gb-2312": "hz"}
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f\ufffd]")


def read_text(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return a page's text and the name of the encoding that it was read with."""
    mark = _marked(body)
    declared = mark or _in_header(content_type[:200]) or _in_page(body[:DECLARED_WITHIN])
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        name = _name_of_other(body, mark, declared, error.start)
        return _decoded(body, name), name
    if _is_utf8(body, declared):
        return text.removeprefix("\ufeff"), "utf-8"
    name = declared or _detected(body[:SAMPLE])
    return _decoded(body, name), name


@lru_cache(maxsize=256)
def known_name(label: str) -> str | None:
    """Return the encoding that a label stands for on the web, in lower case; None if it is unknown."""
    label = label.strip().lower()
    if label in _RETIRED:
        return label
    try:
        name = turbohtml.parse(b"", encoding=label).encoding if _LABEL.fullmatch(label) else None
    except LookupError:
        return None
    return None if name is None or name == "replacement" else name.lower()


def _marked(body: bytes) -> str | None:
    if body[:2] not in _MARK_STARTS:
        return None
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    # The beginning of markup is as good as a mark.
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
    # Whoever could read the declaration did not read it as UTF-16.
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _is_utf8(body: bytes, declared: str | None) -> bool:
    """Tell whether a body that is valid UTF-8 is to be read as such, whatever was declared."""
    if declared == "utf-8":
        return True
    if declared is None:
        return _SHIFTED not in body
    # Text in a single-byte encoding is never valid UTF-8 by chance: what was declared is a server's default.
    wrong = declared.startswith(_SINGLE_BYTE) and not body.isascii()
    return wrong or _is_false_utf16(body, declared)


def _is_false_utf16(body: bytes, declared: str) -> bool:
    if not declared.startswith("utf-16") or b"\x00" in body[:DECLARED_WITHIN]:
        return False
    return b"<" in body[:DECLARED_WITHIN] or body.isascii()


def _name_of_other(body: bytes, mark: str | None, declared: str | None, first: int) -> str:
    """Return the encoding of a body that is not valid UTF-8 from byte `first` on."""
    if mark is not None:
        return mark
    # A few broken bytes are damage. Nothing but broken bytes is a wrong declaration.
    if declared == "utf-8" and _sound(body, times=0):
        return declared
    if declared in (None, "utf-8") or _is_false_utf16(body, declared):
        return _guessed(body, first)
    return declared


def _guessed(body: bytes, first: int) -> str:
    if _sound(body, times=4):
        return "utf-8"
    late = _in_page(body[:SAMPLE])
    return late if late and late != "utf-8" else _detected(body[max(0, first - DECLARED_WITHIN) :][:SAMPLE])


def _detected(sample: bytes) -> str:
    # What was declared has been weighed already, and here it would win again.
    name = known_name(detect(_DECLARING.sub(b"", sample)).encoding or "")
    return name if name and name != "utf-8" else "windows-1252"


def _sound(body: bytes, *, times: int) -> bool:
    """Tell whether there are so many times more characters beyond ASCII in UTF-8 than broken bytes."""
    text = body[: 16 * SAMPLE].decode(errors="replace")
    return len(_BEYOND_ASCII.findall(text)) > times * text.count("\ufffd")


def _decoded(body: bytes, name: str) -> str:
    if name.startswith("utf-32") or name in _RETIRED:
        text = body.decode(_RETIRED.get(name, name), errors="replace")
    else:
        text = body.decode(f"whatwg-{name}")
    return text.removeprefix("\ufeff")
