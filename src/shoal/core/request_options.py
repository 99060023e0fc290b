"""Request options of a task, for more than a plain GET."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode

import msgspec

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
SENT_ON = frozenset({307, 308})  # redirects that repeat a POST; others turn it into a GET
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The body of a POST, and header fields that override those of the scraper."""

    post: bytes | None = field(default=None, repr=False)  # a GET if None
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS, repr=False)  # may hold secrets

    @property
    def words(self) -> str:
        """A description without secrets: the method, the body size and the header names."""
        method = "GET" if self.post is None else f"POST of {len(self.post):,} bytes"
        return f"{method}, with {', '.join(self.headers)}" if self.headers else method

    @classmethod
    def form(cls, fields: Mapping[str, Any], *, headers: Mapping[str, str] = NO_HEADERS) -> Self:
        """Return the POST of a form; a list as value is sent as one field per entry."""
        return cls(post=urlencode(fields, doseq=True).encode(), headers=_named(FORM, headers))

    @classmethod
    def json(cls, data: Any, *, headers: Mapping[str, str] = NO_HEADERS) -> Self:
        """Return the POST of JSON."""
        # In a fixed order, so that equal data is the same task.
        body = msgspec.json.encode(data, order="deterministic")
        return cls(post=body, headers=_named(JSON, headers))


def _named(kind: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields with this content type, unless they set another, in any case."""
    return {"content-type": kind} | {name.lower(): value for name, value in headers.items()}


def asked_for(url: str, post: bytes | None) -> str:
    """Return the identity of a request: its URL, and a hash of its body."""
    # The URL comes first: keys are grouped by their beginning, and so by host.
    return url if post is None else f"{url} POST {blake2b(post, digest_size=16).hexdigest()}"
