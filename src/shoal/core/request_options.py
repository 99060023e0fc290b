"""Request options of a task, for more than a plain GET."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
SENT_ON = frozenset({307, 308})  # redirects that repeat a POST; others turn it into a GET
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_COOKIE_NAME = re.compile(r"[^\s=;,\x00-\x1f\x7f]+")
_NOT_IN_COOKIES = re.compile(r"[;\x00-\x1f\x7f]")


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

    @classmethod
    def read(
        cls,
        *,
        method: str | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        cookies: Mapping[str, str] | None = None,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        body: bytes | None = None,
    ) -> Self | None:
        """Return the options of a request as steps write them, None for a plain GET; raises InvalidInput.

        A form, JSON or bytes make it a POST.
        """
        if sum(one is not None for one in (form, json, body)) > 1:
            raise InvalidInput("A request sends one of form=, json= and body=; leave the others out")
        is_post = _is_post(method, has_body=not (form is json is body is None))
        fields = _with_cookies(headers, cookies)
        if form is not None:
            return cls.form(form, headers=fields)
        if json is not None:
            return cls.json(json, headers=fields)
        if not is_post and not fields:
            return None
        return cls(post=(body or b"") if is_post else None, headers=fields)


def _named(kind: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields with this content type, unless they set another, in any case."""
    return {"content-type": kind} | {name.lower(): value for name, value in headers.items()}


def asked_for(url: str, post: bytes | None) -> str:
    """Return the identity of a request: its URL, and a hash of its body."""
    # The URL comes first: keys are grouped by their beginning, and so by host.
    return url if post is None else f"{url} POST {blake2b(post, digest_size=16).hexdigest()}"


def _is_post(method: str | None, has_body: bool) -> bool:
    word = "" if method is None else str(method).upper()
    if word not in ("", "GET", "POST"):
        raise InvalidInput(
            f"method must be GET or POST, got {shorten(repr(method))}. "
            "For another one, use a client of your own in a step with fetch=None"
        )
    if word == "GET" and has_body:
        raise InvalidInput(
            "A GET sends no form, JSON or bytes: put the values into the URL, or leave method out"
        )
    return word == "POST" or has_body


def _with_cookies(headers: Mapping[str, str], cookies: Mapping[Any, Any] | None) -> Mapping[str, str]:
    if not isinstance(headers, Mapping):
        raise InvalidInput("headers must be names and values, such as headers={'Accept': 'text/html'}")
    if not cookies:
        return headers
    if not isinstance(cookies, Mapping):
        raise InvalidInput("cookies must be names and values, such as cookies={'lang': 'en'}")
    if any(name.lower() == "cookie" for name in headers):
        raise InvalidInput("The request has cookies= and a Cookie header; leave one of them out")
    for name, value in cookies.items():
        if not isinstance(name, str) or not _COOKIE_NAME.fullmatch(name):
            raise InvalidInput(f"cookies have a name that cannot be sent: {shorten(repr(name))}")
        if not isinstance(value, str) or _NOT_IN_COOKIES.search(value):
            # The value may be a secret.
            raise InvalidInput(f"The cookie {name!r} must be text without semicolons and control characters")
    return {**headers, "cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
