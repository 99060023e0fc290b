"""What a cache that is shared may keep and for how long, by RFC 9111: decided here, done elsewhere.

Nothing here raises on what a host says: what cannot be read counts against keeping.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from shoal.core.exchange import Headers
from shoal.core.model import ZERO

LONGEST = timedelta(days=365)
LONGEST_MARK = 1_024  # characters of an ETag that are worth sending back
PLAIN = frozenset({200, 203, 204, 300, 301, 308, 404, 410})
IF_TOLD_HOW_LONG = frozenset({302, 303, 307})
KEEPABLE = PLAIN | IF_TOLD_HOW_LONG
# A request with one of these is the caller's own conversation with the host: the cache stays out of it.
CONDITIONS = frozenset(
    {"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"}
)
SECRETS = frozenset({"authorization", "cookie"})
OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# What a 304 says of these is about its own, empty body.
OF_THE_BODY = frozenset({"content-encoding", "content-length", "content-range", "content-type"})

_DIRECTIVE = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?')
_SECONDS = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Keeping:
    """How an answer may be kept: how old it is by now, and how long the host says that it is good for."""

    age: timedelta
    fresh: timedelta | None  # None: the host does not say
    names: tuple[str, ...]  # of the request's headers that the answer depends on

    def fresh_for(self, lifetime: timedelta) -> timedelta:
        """Return how long the answer is good for where nothing may be older than `lifetime`."""
        return fresh_for(self.fresh, lifetime) - self.age


def fresh_for(told: timedelta | None, lifetime: timedelta) -> timedelta:
    """Return the shorter of what the host tells and what the operator wants."""
    return lifetime if told is None else min(told, lifetime)


def keeping(status: int, headers: Headers, sent: Mapping[str, str], now: datetime) -> Keeping | None:
    """Return how an answer to a GET with the headers `sent` may be kept, None if not at all."""
    said = directives(headers)
    names = varying(headers)
    fresh = told_fresh(headers, said, now)
    if "no-store" in said or "private" in said or "no-store" in directives(sent):
        return None
    if status not in PLAIN and not (status in IF_TOLD_HOW_LONG and fresh is not None):
        return None
    if "*" in names or "cookie" in names:
        return None
    if not SECRETS.isdisjoint(sent) and said.keys().isdisjoint({"public", "s-maxage", "must-revalidate"}):
        return None
    if "set-cookie" in headers and "public" not in said:
        return None
    kept = Keeping(first_age(headers, now), fresh, names)
    return kept if kept.fresh_for(LONGEST) > ZERO or validators(headers) else None


def directives(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what Cache-Control says, names in lower case; of one that is said twice, the shorter number."""
    lines = (
        headers.all("cache-control") if isinstance(headers, Headers) else [headers.get("cache-control", "")]
    )
    found: dict[str, str] = {}
    for name, quoted, bare in _DIRECTIVE.findall(", ".join(lines)[:4_096]):
        key, value = name.lower(), quoted or bare
        found[key] = value if key not in found else min(value, found[key], key=_number)
    return found


def told_fresh(headers: Headers, said: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how long the host says that an answer is good for; None if it says nothing."""
    if "no-cache" in said:
        return ZERO
    for name in ("s-maxage", "max-age"):
        if name in said:
            return timedelta(seconds=_number(said[name]))
    if "expires" not in headers:
        return None
    until = moment(headers["expires"])
    if until is None:  # "0" is common, and means that it has expired
        return ZERO
    return min(max(until - (moment(headers.get("date", "")) or now), ZERO), LONGEST)


def first_age(headers: Headers, now: datetime) -> timedelta:
    """Return how old an answer is when it comes in: other caches may have kept it."""
    told = timedelta(seconds=_number(headers.get("age", "0")))
    made = moment(headers.get("date", ""))
    return max(told, min(now - made, LONGEST) if made else ZERO, ZERO)


def varying(headers: Headers) -> tuple[str, ...]:
    """Return the names of the request's headers that an answer depends on, sorted, in lower case."""
    words = ",".join(headers.all("vary"))[:4_096].lower().split(",")
    # Every request of a worker offers the same encodings, and what is kept is decompressed.
    return tuple(sorted({word.strip() for word in words} - {"", "accept-encoding"}))


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ask a host whether its answer has changed; none if it has no marks for it."""
    asked = {"if-none-match": headers.get("etag", ""), "if-modified-since": headers.get("last-modified", "")}
    return {
        name: value for name, value in asked.items() if 0 < len(value) <= LONGEST_MARK and _is_plain(value)
    }


def refreshed(kept: Headers, news: Headers) -> Headers:
    """Return the header fields of a kept answer, brought up to date by those of a 304."""
    said = [(name, value) for name, value in storable(news) if name.lower() not in OF_THE_BODY]
    names = {name.lower() for name, _ in said} | {"age", "date"}  # which told of the answer before
    return Headers([field for field in kept.fields if field[0].lower() not in names] + said)


def storable(headers: Headers) -> list[tuple[str, str]]:
    """Return the header fields of an answer that are worth keeping."""
    return [
        (name, value.encode(errors="replace").decode())  # half an escaped byte is no text
        for name, value in headers.fields
        if name.lower() not in OF_THE_CONNECTION
    ]


def moment(text: str) -> datetime | None:
    """Read a date of HTTP; None if it is none."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()  # else it could not be sent as it was given


def _number(text: str) -> int:
    # What is no number of seconds is none at all: the answer is then out of date at once.
    return min(int(text), int(LONGEST.total_seconds())) if _SECONDS.fullmatch(text.strip()) else 0
