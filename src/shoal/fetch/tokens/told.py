"""What a host tells of a token's budget, in whichever of its many spellings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from shoal.core.exchange import Headers, Response
from shoal.core.model import SECOND, ZERO
from shoal.fetch.answer import retry_after

LONGEST = timedelta(days=31)  # a window; some are a month
ROUNDED = SECOND  # what a whole number of seconds may have lost
MOST = 1 << 40  # requests
LONGEST_VALUE = 1_000  # characters of a header that are looked at

_NUMBER = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\s*\d{1,15}(?:\.\d{1,9})?\s*", re.ASCII)
_MEMBER = re.compile(r'(?:"[^"]*"|[^,"])+')  # of a list; a name in quotes may hold a comma
_PARAMETER = re.compile(r";\s*([a-z]+)\s*=\s*(\d{1,15})", re.ASCII)
_COMBINED = re.compile(r"\b(limit|remaining|reset)\s*=\s*(\d{1,15})", re.ASCII)
_FAMILIES = ("x-ratelimit-", "ratelimit-", "x-rate-limit-", "rate-limit-")
_EPOCH, _EPOCH_MS = 10**9, 10**11  # the smallest numbers that are moments: in 2001, and by ms in 1973


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is left of a budget and when it is whole again, as far as the host says; `rest` is Retry-After."""

    left: int | None = None
    limit: int | None = None
    resets_in: timedelta | None = None  # at the latest
    rest: timedelta | None = None


def told_by(response: Response, now: datetime | None = None) -> Told:
    """Read the rate limits of an answer. Moments count from its own date, or from `now` if it has none."""
    rest = retry_after(response, now)
    for found in _spellings(response.headers, now or datetime.now(UTC)):
        if found.left is not None:
            return Told(left=found.left, limit=found.limit, resets_in=found.resets_in, rest=rest)
    return Told(rest=rest)


def _spellings(headers: Headers, now: datetime) -> Iterator[Told]:
    yield _structured(headers)
    yield _combined(headers)
    for family in _FAMILIES:
        yield Told(
            left=_count(_value(headers, f"{family}remaining")),
            limit=_count(_value(headers, f"{family}limit")),
            resets_in=reset_in(_value(headers, f"{family}reset"), _date(headers) or now),
        )


def _structured(headers: Headers) -> Told:
    """Read `RateLimit: "default";r=50;t=30`; of several policies, the one that leaves least."""
    limits = {name: facts.get("q") for name, facts in _members(_value(headers, "ratelimit-policy"))}
    found = [
        (facts["r"], name, facts) for name, facts in _members(_value(headers, "ratelimit")) if "r" in facts
    ]
    if not found:
        return Told()
    left, name, facts = min(found, key=lambda one: one[0])
    return Told(left=left, limit=limits.get(name), resets_in=_seconds(facts.get("t")))


def _combined(headers: Headers) -> Told:
    """Read `RateLimit: limit=100, remaining=50, reset=30`."""
    facts = {name: int(number) for name, number in _COMBINED.findall(_value(headers, "ratelimit").lower())}
    return Told(left=facts.get("remaining"), limit=facts.get("limit"), resets_in=_seconds(facts.get("reset")))


def _members(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    for member in _MEMBER.findall(text):
        facts = {name: int(number) for name, number in _PARAMETER.findall(member)}
        yield member.partition(";")[0].strip(), facts


def _value(headers: Headers, name: str) -> str:
    return headers.get(name, "")[:LONGEST_VALUE]


def _count(text: str) -> int | None:
    """Read how many requests; of a list, such as `100, 100;w=60`, the first."""
    found = _NUMBER.match(text)
    return min(int(float(found[1])), MOST) if found else None


def _seconds(number: int | None) -> timedelta | None:
    return None if number is None else _bounded(timedelta(seconds=min(number, 10**9)) + ROUNDED)


def reset_in(text: str, now: datetime) -> timedelta | None:
    """Read when a budget is whole again: in seconds, or at a moment: since 1970 in s or ms, or a date."""
    if _WHOLE_NUMBER.fullmatch(text):
        number = float(text)
        if number < _EPOCH:
            lost = ZERO if "." in text else ROUNDED
            return _bounded(timedelta(seconds=number) + lost)
        seconds = number / 1_000 if number >= _EPOCH_MS else number
        return _bounded(timedelta(seconds=seconds - now.timestamp()) + ROUNDED)
    moment = _moment(text)
    return None if moment is None else _bounded(moment - now + ROUNDED)


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, ZERO), LONGEST)


def _date(headers: Headers) -> datetime | None:
    # The host's clock may be wrong by hours: its moments are compared with its own time.
    return _moment(_value(headers, "date"))


def _moment(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text.strip())
        except (ValueError, OverflowError, TypeError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
