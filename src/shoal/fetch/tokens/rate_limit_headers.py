"""Parses the rate limit headers of a response, in their many spellings."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from shoal.core.http import Headers, Response
from shoal.core.model import SECOND, ZERO
from shoal.fetch.status import retry_after

MAX_WINDOW = timedelta(days=31)  # of a window; some last a month
ROUNDING = SECOND  # what rounding to whole seconds may have lost
MAX_REQUESTS = 1 << 40  # requests
MAX_VALUE_LENGTH = 1_000  # characters of a header that are parsed

_NUMBER = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\s*\d{1,15}(?:\.\d{1,9})?\s*", re.ASCII)
_MEMBER = re.compile(r'(?:"[^"]*"|[^,"])+')  # of a list; a quoted name may contain a comma
_PARAMETER = re.compile(r";\s*([a-z]+)\s*=\s*(\d{1,15})", re.ASCII)
_COMBINED = re.compile(r"\b(limit|remaining|reset)\s*=\s*(\d{1,15})", re.ASCII)
_FAMILIES = ("x-ratelimit-", "ratelimit-", "x-rate-limit-", "rate-limit-")
_EPOCH, _EPOCH_MS = 10**9, 10**11  # the smallest numbers that are dates: in 2001, and in ms in 1973


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The requests left in a window and when it resets, as the host sends them."""

    left: int | None = None
    limit: int | None = None
    resets_in: timedelta | None = None  # at the latest
    retry_after: timedelta | None = None


def rate_limit_in(response: Response, now: datetime | None = None) -> RateLimit:
    """Parse the rate limit of a response. Dates are relative to its Date header, or to `now`."""
    wait = retry_after(response, now)
    for found in _variants(response.headers, now or datetime.now(UTC)):
        if found.left is not None:
            return RateLimit(left=found.left, limit=found.limit, resets_in=found.resets_in, retry_after=wait)
    return RateLimit(retry_after=wait)


def _variants(headers: Headers, now: datetime) -> Iterator[RateLimit]:
    yield _parse_structured(headers)
    yield _parse_combined(headers)
    for family in _FAMILIES:
        yield RateLimit(
            left=_count(_value(headers, f"{family}remaining")),
            limit=_count(_value(headers, f"{family}limit")),
            resets_in=reset_in(_value(headers, f"{family}reset"), _date(headers) or now),
        )


def _parse_structured(headers: Headers) -> RateLimit:
    """Parse `RateLimit: "default";r=50;t=30`; of several policies, the one with the least left."""
    limits = {name: facts.get("q") for name, facts in _members(_value(headers, "ratelimit-policy"))}
    found = [
        (facts["r"], name, facts) for name, facts in _members(_value(headers, "ratelimit")) if "r" in facts
    ]
    if not found:
        return RateLimit()
    left, name, facts = min(found, key=lambda one: one[0])
    return RateLimit(left=left, limit=limits.get(name), resets_in=_seconds(facts.get("t")))


def _parse_combined(headers: Headers) -> RateLimit:
    """Parse `RateLimit: limit=100, remaining=50, reset=30`."""
    facts = {name: int(number) for name, number in _COMBINED.findall(_value(headers, "ratelimit").lower())}
    return RateLimit(
        left=facts.get("remaining"), limit=facts.get("limit"), resets_in=_seconds(facts.get("reset"))
    )


def _members(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    for member in _MEMBER.findall(text):
        facts = {name: int(number) for name, number in _PARAMETER.findall(member)}
        yield member.partition(";")[0].strip(), facts


def _value(headers: Headers, name: str) -> str:
    return headers.get(name, "")[:MAX_VALUE_LENGTH]


def _count(text: str) -> int | None:
    """Parse a number of requests; of a list, such as `100, 100;w=60`, the first."""
    found = _NUMBER.match(text)
    return min(int(float(found[1])), MAX_REQUESTS) if found else None


def _seconds(number: int | None) -> timedelta | None:
    return None if number is None else _clamp(timedelta(seconds=min(number, 10**9)) + ROUNDING)


def reset_in(text: str, now: datetime) -> timedelta | None:
    """Parse when a window resets: in seconds, or as a date: since 1970 in s or ms, or as text."""
    if _WHOLE_NUMBER.fullmatch(text):
        number = float(text)
        if number < _EPOCH:
            lost = ZERO if "." in text else ROUNDING
            return _clamp(timedelta(seconds=number) + lost)
        seconds = number / 1_000 if number >= _EPOCH_MS else number
        return _clamp(timedelta(seconds=seconds - now.timestamp()) + ROUNDING)
    moment = _parse_date(text)
    return None if moment is None else _clamp(moment - now + ROUNDING)


def _clamp(wait: timedelta) -> timedelta:
    return min(max(wait, ZERO), MAX_WINDOW)


def _date(headers: Headers) -> datetime | None:
    # The host's clock may be wrong by hours: its dates are compared with its own time.
    return _parse_date(_value(headers, "date"))


def _parse_date(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text.strip())
        except (ValueError, OverflowError, TypeError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
