"""Values as people write them into files and rules; each raises ValueError with what is wrong."""

import re
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from shoal.core.errors import shorten
from shoal.core.model import HIGHEST_PRIORITY, LOWEST_PRIORITY, SECOND, ZERO

LONGEST = timedelta(days=36_500)
MOST_NAMED = 20

_UNITS = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhd]?)\s*")
_DIGIT = re.compile(r"[0-9]")


def read_priority(value: Any) -> int:
    """Read a priority: a whole number from 0 to 9, also as text."""
    if isinstance(value, str) and _DIGIT.fullmatch(value.strip()):
        return int(value)
    if type(value) is int and LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY:
        return value
    raise ValueError(f"priority must be {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, got {_shown(value)}")


def read_ttl(value: Any) -> timedelta:
    """Read a time to live: a timedelta, a number of seconds, or text such as "30m" and "1h30m"."""
    found = _duration(value)
    if found is None or not ZERO < found <= LONGEST:
        raise ValueError(f"ttl must be a length of time such as '30m', '24h' or 1800, got {_shown(value)}")
    return found


def read_text(field: str, value: Any) -> str:
    """Read a text that is one line."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{field} must be one line of text, got {_shown(value)}")
    return value


def hint(word: str, known: Iterable[str]) -> str:
    """Return what to write instead of a word that nobody knows."""
    names = list(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    more = ", …" if len(names) > MOST_NAMED else ""
    return f"Known are {', '.join(map(repr, names[:MOST_NAMED]))}{more}."


def _duration(value: Any) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            return _spelled(value.strip().lower())
        return None if isinstance(value, bool) else timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):
        return None


def _spelled(text: str) -> timedelta | None:
    total, end = ZERO, 0
    for part in _PART.finditer(text):
        if part.start() != end or (not part[2] and part[0] != text):
            return None
        total, end = total + float(part[1]) * _UNITS[part[2] or "s"], part.end()
    return total if text and end == len(text) else None


def _shown(value: Any) -> str:
    return shorten(repr(value), 60)
