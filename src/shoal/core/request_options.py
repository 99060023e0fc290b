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
POST, HEAD = "POST", "HEAD"
METHODS = ("GET", POST, "PUT", "PATCH", "DELETE", HEAD, "OPTIONS")
SENT_ON = frozenset({307, 308})  # redirects that repeat a POST; others turn it into a GET
SEE_OTHER = 303  # turns every method but HEAD into a GET
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_COOKIE_NAME = re.compile(r"[^\s=;,\x00-\x1f\x7f]+")
_NOT_IN_COOKIES = re.compile(r"[;\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The body of a POST or of another method, and header fields that override those of the scraper."""

    post: bytes | None = field(default=None, repr=False)  # a GET if None; empty for a method without a body
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS, repr=False)  # may hold secrets
    method: str = POST  # of a request that is no GET

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", str(self.method).upper())
        if self.post is None and self.method not in (POST, "GET"):
            object.__setattr__(self, "post", b"")

    def __repr__(self) -> str:
        return f"<RequestOptions {self.words}>"

    @property
    def words(self) -> str:
        """A description without secrets: the method, the body size and the header names."""
        method = "GET" if self.post is None else f"{self.method} of {len(self.post):,} bytes"
        return f"{method}, with {', '.join(self.headers)}" if self.headers else method

    @classmethod
    def form(
        cls, fields: Mapping[str, Any], *, headers: Mapping[str, str] = NO_HEADERS, method: str = POST
    ) -> Self:
        """Return the POST of a form; a list as value is sent as one field per entry."""
        return cls(post=encode_fields("form", fields).encode(), headers=_named(FORM, headers), method=method)

    @classmethod
    def json(cls, data: Any, *, headers: Mapping[str, str] = NO_HEADERS, method: str = POST) -> Self:
        """Return the POST of JSON."""
        # In a fixed order, so that equal data is the same task.
        body = msgspec.json.encode(data, order="deterministic")
        return cls(post=body, headers=_named(JSON, headers), method=method)

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

        A form, JSON or bytes make it a POST, unless you name another method.
        """
        if sum(one is not None for one in (form, json, body)) > 1:
            raise InvalidInput("A request sends one of form=, json= and body=; leave the others out")
        word = _read_method(method, has_body=not (form is json is body is None))
        fields = _with_cookies(headers, cookies)
        if form is not None:
            return cls.form(form, headers=fields, method=word)
        if json is not None:
            return cls.json(json, headers=fields, method=word)
        if word == "GET":
            return cls(headers=fields) if fields else None
        return cls(post=body or b"", headers=fields, method=word)


def encode_fields(what: str, fields: Mapping[str, Any]) -> str:
    """Return names and values as in a query; a list is one field per entry. Raises InvalidInput."""
    for name, value in fields.items():
        entries = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(one, (Mapping, list, tuple, set)) for one in entries):
            raise InvalidInput(
                f"{what} has a nested value at {shorten(repr(name))}, for which there is no common spelling. "
                f"Write it as the site does: {what}={{'a[b]': 1}}, or as JSON text"
            )
    return urlencode(fields, doseq=True)


def _named(kind: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields with this content type, unless they set another, in any case."""
    return {"content-type": kind} | {name.lower(): value for name, value in headers.items()}


def asked_for(url: str, post: bytes | None, method: str = POST) -> str:
    """Return the identity of a request: its URL, its method unless it is a GET, and a hash of its body."""
    # The URL comes first: keys are grouped by their beginning, and so by host.
    return url if post is None else f"{url} {method} {blake2b(post, digest_size=16).hexdigest()}"


def after_redirect(method: str, status: int) -> str:
    """Return the method of the request that follows a redirect, as browsers choose it."""
    if method == HEAD or status in SENT_ON:
        return method
    return "GET" if method == POST or status == SEE_OTHER else method


def _read_method(method: str | None, has_body: bool) -> str:
    word = (POST if has_body else "GET") if method is None else str(method).upper()
    if word not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {shorten(repr(method))}")
    if word in ("GET", HEAD) and has_body:
        raise InvalidInput(
            f"A {word} sends no form, JSON or bytes: put the values into the URL, or leave method out"
        )
    return word


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
