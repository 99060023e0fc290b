"""What a shared cache may store and for how long, by RFC 9111: pure decisions, no I/O.

Nothing here raises on what a host sends: a header that cannot be parsed counts against storing.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from shoal.core.http import Headers
from shoal.core.model import ZERO
from shoal.fetch.status import parse_date

MAX_LIFETIME = timedelta(days=365)
MAX_VALIDATOR = 1_024  # characters of an ETag that are sent back
CACHEABLE_BY_DEFAULT = frozenset({200, 203, 204, 300, 301, 308, 404, 410})
CACHEABLE_IF_FRESH = frozenset({302, 303, 307})
CACHEABLE = CACHEABLE_BY_DEFAULT | CACHEABLE_IF_FRESH
# A request with one of these is conditional already: the cache does not interfere.
CONDITIONS = frozenset(
    {"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"}
)
# They differ from request to request, and hardly any response depends on them.
PER_REQUEST = frozenset({"referer", "traceparent", "tracestate", "x-request-id"})
SECRETS = frozenset({"authorization", "cookie"})
NOT_STORED = frozenset(
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
# In a 304 these describe its own, empty body.
BODY_HEADERS = frozenset({"content-encoding", "content-length", "content-range", "content-type"})

_DIRECTIVE = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?')
_SECONDS = re.compile(r"\d{1,18}", re.ASCII)


class StoragePolicy(msgspec.Struct, frozen=True):
    """How a response may be stored: its age now, and its freshness lifetime according to the host."""

    age: timedelta
    fresh: timedelta | None  # None: the host does not say

    def fresh_for(self, lifetime: timedelta) -> timedelta:
        """Return how long the response stays fresh where nothing may be older than `lifetime`."""
        return fresh_for(self.fresh, lifetime) - self.age


def fresh_for(sent: timedelta | None, lifetime: timedelta) -> timedelta:
    """Return the shorter of the host's and the operator's lifetime."""
    return lifetime if sent is None else min(sent, lifetime)


def storage_policy(
    status: int, headers: Headers, sent: Mapping[str, str], now: datetime
) -> StoragePolicy | None:
    """Return how a response to a GET with the headers `sent` may be stored, None if not at all."""
    control = directives(headers)
    fresh = freshness_lifetime(headers, control, now)
    if "no-store" in control or "private" in control or "no-store" in directives(sent):
        return None
    if status not in CACHEABLE_BY_DEFAULT and not (status in CACHEABLE_IF_FRESH and fresh is not None):
        return None
    varies_by = {word.strip() for word in ",".join(headers.all("vary")).lower().split(",")}
    if varies_by & ({"*", "cookie"} | PER_REQUEST):
        return None
    if not SECRETS.isdisjoint(sent) and control.keys().isdisjoint({"public", "s-maxage", "must-revalidate"}):
        return None
    if "set-cookie" in headers and "public" not in control:
        return None
    policy = StoragePolicy(initial_age(headers, now), fresh)
    return policy if policy.fresh_for(MAX_LIFETIME) > ZERO or validators(headers) else None


def directives(headers: Mapping[str, str]) -> dict[str, str]:
    """Parse Cache-Control, names in lower case; of a repeated directive, the smaller number counts."""
    lines = (
        headers.all("cache-control") if isinstance(headers, Headers) else [headers.get("cache-control", "")]
    )
    found: dict[str, str] = {}
    for name, quoted, bare in _DIRECTIVE.findall(", ".join(lines)[:4_096]):
        key, value = name.lower(), quoted or bare
        found[key] = value if key not in found else min(value, found[key], key=_number)
    return found


def freshness_lifetime(headers: Headers, control: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the freshness lifetime that the host sends; None if it sends none."""
    if "no-cache" in control:
        return ZERO
    for name in ("s-maxage", "max-age"):
        if name in control:
            return timedelta(seconds=_number(control[name]))
    if "expires" not in headers:
        return None
    until = parse_date(headers["expires"])
    if until is None:  # "0" is common, and means expired
        return ZERO
    return min(max(until - (parse_date(headers.get("date", "")) or now), ZERO), MAX_LIFETIME)


def initial_age(headers: Headers, now: datetime) -> timedelta:
    """Return how old a response is on arrival: other caches may have stored it."""
    age = timedelta(seconds=_number(headers.get("age", "0")))
    made = parse_date(headers.get("date", ""))
    return max(age, min(now - made, MAX_LIFETIME) if made else ZERO, ZERO)


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the conditional headers to validate a response with; empty if it has no validators."""
    etag, modified = headers.get("etag", ""), headers.get("last-modified", "")
    conditions = {"if-none-match": etag, "if-modified-since": modified}
    return {
        name: value
        for name, value in conditions.items()
        if 0 < len(value) <= MAX_VALIDATOR and _is_plain(value)
    }


def update_headers(stored: Headers, update: Headers) -> Headers:
    """Return the header fields of a stored response, updated with those of a 304."""
    fields = [(name, value) for name, value in storable(update) if name.lower() not in BODY_HEADERS]
    names = {name.lower() for name, _ in fields} | {"age", "date"}  # which describe the stored response
    return Headers([field for field in stored.fields if field[0].lower() not in names] + fields)


def storable(headers: Headers) -> list[tuple[str, str]]:
    """Return the header fields of a response that are stored."""
    return [
        (name, value.encode(errors="replace").decode())  # a lone surrogate cannot be encoded
        for name, value in headers.fields
        if name.lower() not in NOT_STORED
    ]


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()  # else it could not be sent back unchanged


def _number(text: str) -> int:
    # What is not a number of seconds counts as 0: the response is then stale at once.
    return min(int(text), int(MAX_LIFETIME.total_seconds())) if _SECONDS.fullmatch(text.strip()) else 0
