"""Parses values such as "5/s", "30s", "8-20s", "32 MB"; an InvalidSetting names the key."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import HIGHEST_PRIORITY, LOWEST_PRIORITY, SECOND, ZERO
from shoal.core.text import shorten

MAX_DURATION = timedelta(days=36_500)
MAX_HINTS = 20
LOOPBACK = "127.0.0.1"

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": SECOND,
    "sec": SECOND,
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WHOLE = re.compile(r"[0-9]{1,12}")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:/|per)\s*([a-z]+)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?i?b?)")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_YES, _NO = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def read_duration(key: str, value: Any) -> timedelta:
    """Read a duration: a timedelta, a number of seconds, or text such as "30s" and "1h30m"."""
    found = _duration(value)
    if found is None or not ZERO <= found <= MAX_DURATION:
        raise InvalidSetting(key, f"must be a duration such as '30s', '5m' or 30, got {_shown(value)}")
    return found


def read_positive_duration(key: str, value: Any) -> timedelta:
    """Read a duration greater than zero."""
    found = read_duration(key, value)
    if found <= ZERO:
        raise InvalidSetting(key, f"must be more than zero, got {_shown(value)}")
    return found


def read_range(key: str, value: Any, *, example: str = "8-20s") -> tuple[timedelta, timedelta]:
    """Read a minimum and a maximum duration: "8-20s", a pair, or one duration for both."""
    shortest, longest = _ends(value)
    low, high = read_duration(key, shortest), read_duration(key, longest)
    if low > high:
        raise InvalidSetting(
            key, f"must start with the shorter one, such as {example!r}, got {_shown(value)}"
        )
    return low, high


def read_since(key: str, value: Any, now: datetime) -> datetime:
    """Read a date, a time, or a duration before now."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        try:
            return now - read_duration(key, value)
        except InvalidSetting as error:
            reason = "must be a date such as 2026-01-31 or a duration such as 7d"
            raise InvalidSetting(key, f"{reason}, got {value!r}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_rate(key: str, value: Any) -> timedelta:
    """Read a rate, such as "5/s", "30/min" or 5 per second, as the gap between requests; None is no gap."""
    if value is None or (isinstance(value, str) and value.strip().lower() in ("none", "null", "off")):
        return ZERO
    per_second = _per_second(value)
    longest = MAX_DURATION.total_seconds()
    if per_second is None or not 0 < per_second < float("inf") or 1 / per_second > longest:
        reason = "must be a rate such as '5/s', '30/min' or 5, or None for no gap"
        raise InvalidSetting(key, f"{reason}, got {_shown(value)}")
    return SECOND / per_second


def read_size(key: str, value: Any) -> int:
    """Read a number of bytes: 1000000 or "32 MB", where 1 KB is 1,024 bytes."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value.strip().lower())):
        value = int(float(found[1]) * _SIZES[found[2].rstrip("ib")])
    if not _is_whole(value) or value < 1:
        raise InvalidSetting(key, f"must be a size such as '32 MB' or 1000000, got {_shown(value)}")
    return int(value)


def read_whole(key: str, value: Any, *, least: int, most: int = 1 << 31) -> int:
    """Read an integer within bounds, also from text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if not _is_whole(value) or not least <= value <= most:
        raise InvalidSetting(key, f"must be a whole number from {least} to {most:,}, got {_shown(value)}")
    return int(value)


def read_priority(key: str, value: Any) -> int:
    """Read the priority of a task."""
    return read_whole(key, value, least=LOWEST_PRIORITY, most=HIGHEST_PRIORITY)


def read_flag(key: str, value: Any) -> bool:
    """Read True or False, also from text."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise InvalidSetting(key, f"must be True or False, got {_shown(value)}")


def read_choice(key: str, value: Any, known: Iterable[str]) -> str:
    """Read one of the known words."""
    words = list(map(str, known))  # an enum's members are known by their values
    if isinstance(value, str) and value in words:
        return value
    raise InvalidSetting(key, f"must be {' or '.join(map(repr, words))}, got {_shown(value)}")


def read_text(key: str, value: Any) -> str:
    """Read one line of text, which may be empty."""
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidSetting(key, f"must be one line of text, got {_shown(value)}")
    return value


def split_words(text: str) -> list[str]:
    """Return the words of a text that are separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_words(key: str, value: Any) -> tuple[str, ...]:
    """Read one text or a list of texts."""
    words = (value,) if isinstance(value, str) else value
    try:
        read = tuple(words)
    except TypeError:
        read = (None,)
    if not all(isinstance(word, str) and word.strip() and word.isprintable() for word in read):
        raise InvalidSetting(key, f"must be a text or a list of texts, got {_shown(value)}")
    return read


def read_typed(text: str) -> Any:
    """Read a value as a person types it: JSON if it is that, else the text; None and none are null."""
    return None if text.strip().lower() == "none" else read_json_or_text(text.strip())


def read_json_or_text(text: str) -> Any:
    """Read JSON, or else the text as it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def read_pair(key: str, text: str, example: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidSetting(key, f"takes NAME=VALUE such as {example}, not {shorten(text)!r}")
    return name.strip(), value


def no_match(noun: str, total: int, filters: Mapping[str, object]) -> str:
    """Return what an empty list says: that there is nothing, or that nothing matches the filters in use."""
    used = ", ".join(f"{name} {value}" for name, value in filters.items() if value)
    if not total or not used:
        return f"No {noun}s."
    if total == 1:
        return f"The only {noun} does not match {used}."
    return f"None of {counted(total, noun)} matches {used}."


def hint(word: str, known: Iterable[str], label: str = "Known") -> str:
    """Return what to write instead of an unknown word."""
    names = list(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    more = ", …" if len(names) > MAX_HINTS else ""
    return f"{label}: {', '.join(map(repr, names[:MAX_HINTS]))}{more}."


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
    if _NUMBER.fullmatch(text):
        return timedelta(seconds=float(text))
    total, end = ZERO, 0
    for part in _PART.finditer(text):
        if part.start() != end or part[2] not in _UNITS:
            return None
        total, end = total + float(part[1]) * _UNITS[part[2]], part.end()
    return total if text and end == len(text) else None


def read_host_port(key: str, text: str) -> tuple[str, int]:
    """Read HOST:PORT or PORT, which means loopback; raises InvalidSetting."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSetting(key, f"takes HOST:PORT or PORT, such as 127.0.0.1:9464, not {text!r}")
    return host.strip("[]") or LOOPBACK, int(port)


def _ends(value: Any) -> tuple[Any, Any]:
    if isinstance(value, str) and value.count("-") == 1 and not value.strip().startswith("-"):
        shortest, longest = (end.strip() for end in value.split("-"))
        unit = re.sub(r"[0-9.\s]", "", longest)
        return (f"{shortest}{unit}" if _NUMBER.fullmatch(shortest) else shortest), longest
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    return value, value


def _per_second(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip().lower()
        if _NUMBER.fullmatch(text):
            return float(text)
        found = _RATE.fullmatch(text)
        unit = _UNITS.get(found[2]) if found else None
        return float(found[1]) / unit.total_seconds() if found and unit else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return shorten(repr(value), 60)


def spelled(duration: timedelta) -> str:
    """Return a duration as people write it, and as `read_duration` reads it: "1h30m", "250ms"."""
    left, parts = duration, list[str]()
    for name in ("d", "h", "m", "s"):
        unit = _UNITS[name]
        if name == "s" and left % unit:
            seconds = left / unit
            small = left / _UNITS["ms"]
            parts.append(f"{small:g}ms" if seconds < 1 and not parts else f"{seconds:g}s")
            break
        count, left = divmod(left, unit)
        parts += [f"{count}{name}"] if count else []
    return "".join(parts) or "0s"


def rate_of(delay: timedelta) -> str:
    """Return the rate of a delay between two requests, as `read_rate` reads it: "5/s", "30/min"."""
    seconds = delay.total_seconds()
    if not seconds:
        return "none"
    if seconds <= 1:
        return f"{1 / seconds:.3g}/s"
    return f"{60 / seconds:.3g}/min" if seconds <= 60 else f"{3600 / seconds:.3g}/h"


def median(values: Iterable[float]) -> float:
    """Return the middle value of at least one; `statistics.median` would load fractions and decimals."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 page", "1,204 pages"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
