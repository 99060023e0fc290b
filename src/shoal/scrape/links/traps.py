"""Recognise URLs that a site generates endlessly, by their form: pure functions."""

import re
from collections import Counter
from datetime import date

from shoal.scrape.links.shape import UrlParts

MAX_LENGTH = 2_000  # characters of a link
MAX_SEGMENTS = 20
MAX_YEARS_AHEAD, MAX_YEARS_BACK = 10, 100

_SESSION_NAMES = (
    "phpsessid|jsessionid|aspsessionid[a-z]*|sessionid|session_id|sessid|zenid|oscsid|cftoken|cfid"
)
_TOKEN = "(?:[0-9a-f]{16,}|(?=[a-z]*[0-9])[a-z0-9]{24,})"
_SESSION = re.compile(
    rf";(?:{_SESSION_NAMES})=[^/?;]*"
    r"|/\((?:[a-z]\([a-z0-9]{20,}\))+\)(?=/)"
    rf"|(?P<mark>[?&])(?:(?:{_SESSION_NAMES})=[^&]*|s(?:id)?={_TOKEN})(?=&|$)",
    re.IGNORECASE,
)
_MAY_HOLD_SESSION = re.compile(r"[?;(]")
_DATE = re.compile(
    r"(?<![0-9A-Za-z])([12][0-9]{3})[-/._]?(?:0?[1-9]|1[0-2])(?:[-/._]?(?:0?[1-9]|[12][0-9]|3[01]))?/?$"
)
_CALENDAR = re.compile(
    r"(?<![a-z])(?:calend[ae]rs?|kalender|agenda|events?|schedule|month|week|day|date)(?![a-z])", re.I
)
_YEAR_NAMES = frozenset({"y", "year", "yr", "jahr"})
_YEAR = re.compile(r"[12][0-9]{3}")
_VARIANTS = re.compile(
    r"print(?:able|view|er_friendly)?|sort(?:_?(?:by|order|dir))?|order_?by|order_?dir|replytocom|share",
    re.IGNORECASE,
)
_ORDERED = frozenset({"asc", "desc", "ascending", "descending"})
_INDEX_ORDER = re.compile(r"[NMSD](?:;O=[AD])?")  # how Apache sorts a folder


def strip_session(url: str) -> str:
    """Return a URL without the session ids that sites put into URLs of clients without cookies."""
    if not _MAY_HOLD_SESSION.search(url):
        return url
    bare, found = _SESSION.subn(lambda session: session["mark"] or "", url)
    if not found:
        return url
    page, _, query = bare.partition("?")
    query = "&".join(param for param in query.split("&") if param)
    return f"{page}?{query}" if query else page


def find_endless(url: str, address: UrlParts, today: date) -> str | None:
    """Return why a URL is hardly an ordinary page, or None if it may well be one."""
    if len(url) > MAX_LENGTH:
        return "long addresses"
    if len(address.segments) > MAX_SEGMENTS:
        return "deep paths"
    if is_repeating(address.segments):
        return "repeating paths"
    return "far dates" if is_far_date(address, today) else None


def is_repeating(segments: list[str]) -> bool:
    """Tell whether a path repeats itself immediately: /a/a/a, /a/b/a/b."""
    words = [segment for segment in segments if not segment.isdecimal()]
    if len(words) < 3 or len(set(words)) == len(words):
        return False
    return any(_has_cycle(segments, size) for size in range(1, len(segments) // 2 + 1))


def is_recurring(segments: list[str]) -> bool:
    """Tell whether a segment occurs three times in a path; this also happens on ordinary sites."""
    words = [segment for segment in segments if not segment.isdecimal()]
    return len(set(words)) < len(words) and max(Counter(words).values()) >= 3


def is_calendar(address: UrlParts) -> bool:
    """Tell whether a URL looks like a calendar page: it has a calendar word and ends with a date."""
    has_word = _CALENDAR.search(address.path) or any(_CALENDAR.search(name) for name, _ in address.params)
    return bool(has_word and years(address))


def is_far_date(address: UrlParts, today: date) -> bool:
    """Tell whether a URL is a calendar page of a year for which nobody has entered anything."""
    return is_calendar(address) and any(
        not today.year - MAX_YEARS_BACK <= year <= today.year + MAX_YEARS_AHEAD for year in years(address)
    )


def years(address: UrlParts) -> list[int]:
    """Return the years of dates at the end of the path or in values of the query."""
    texts = ["/".join(address.segments), *(value for _, value in address.params)]
    dated = [found[1] for text in texts if (found := _DATE.search(text))]
    named = [
        value for name, value in address.params if name.lower() in _YEAR_NAMES and _YEAR.fullmatch(value)
    ]
    return [*map(int, dated), *map(int, named)]


def is_variant(address: UrlParts) -> bool:
    """Tell whether a URL is another view of a page: sorted, or for printing."""
    return any(
        _VARIANTS.fullmatch(name)
        or value.lower() in _ORDERED
        or (name == "C" and _INDEX_ORDER.fullmatch(value))
        for name, value in address.params
    )


def _has_cycle(segments: list[str], size: int) -> bool:
    """Tell whether `size` segments are repeated immediately; a single one must occur three times."""
    times = 3 if size == 1 else 2
    return any(
        segments[start : start + size] * times == segments[start : start + size * times]
        and not all(map(str.isdecimal, segments[start : start + size]))
        for start in range(len(segments) - size * times + 1)
    )
