"""How a page is asked for where a plain GET will not do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode

import msgspec

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
SENT_ON = frozenset({307, 308})  # redirects that a POST goes along with; others turn it into a GET
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a task sends to its host: the body of a POST, and header fields over those of its scraper."""

    post: bytes | None = field(default=None, repr=False)  # a GET without
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS, repr=False)  # may hold secrets

    @property
    def words(self) -> str:
        """What is sent, without what may be secret: its size, and the names of its headers."""
        method = "GET" if self.post is None else f"POST of {len(self.post):,} bytes"
        return f"{method}, with {', '.join(self.headers)}" if self.headers else method

    @classmethod
    def form(cls, fields: Mapping[str, Any], *, headers: Mapping[str, str] = NO_HEADERS) -> Self:
        """Return the POST of a form; a field with a list is sent once for each of its values."""
        return cls(post=urlencode(fields, doseq=True).encode(), headers=_named(FORM, headers))

    @classmethod
    def json(cls, data: Any, *, headers: Mapping[str, str] = NO_HEADERS) -> Self:
        """Return the POST of JSON."""
        # In one order, so that the same data is the same task.
        body = msgspec.json.encode(data, order="deterministic")
        return cls(post=body, headers=_named(JSON, headers))


def _named(kind: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields with the kind of content, unless they name another, however that is written."""
    return {"content-type": kind} | {name.lower(): value for name, value in headers.items()}


def asked_for(url: str, post: bytes | None) -> str:
    """Return what tells one page from another: its URL, and what is sent there."""
    # The URL first: what is told apart by its beginning is told apart by its host.
    return url if post is None else f"{url} POST {blake2b(post, digest_size=16).hexdigest()}"
