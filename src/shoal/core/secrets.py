"""The secrets of requests: one list for redaction, cache keys and links.

Requests get their secrets from many places: headers of the scraper, of the task, of a session, tokens,
cookies, the proxy. They are collected where requests are sent, for the task that sends them.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from urllib.parse import quote, unquote

from shoal.core.redact import HIDDEN, MIN_SECRET, is_secret_header, passwords_in

MIN_COOKIE = 8  # characters; hosts set many shorter ones, such as "en" or "true", that are no secrets
MAX_REMEMBERED = 1_000  # requests of one task whose secrets are remembered

_is_secret = lru_cache(maxsize=1_000)(is_secret_header)


def secret_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that carry secrets, names in lower case."""
    return {name.lower(): value for name, value in headers.items() if _is_secret(name)}


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that carry no secrets."""
    secrets = secret_headers(headers)
    return {name: value for name, value in headers.items() if name.lower() not in secrets}


def header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in headers: whole values, credentials after a scheme, cookies, passwords."""
    for name, value in secret_headers(headers).items():
        # "Bearer x" is a well-known word followed by the secret.
        yield from (value, *value.split()[1:])
        if name == "cookie":
            yield from (pair.partition("=")[2].strip() for pair in value.split(";"))
        if value[:6].lower() == "basic ":
            yield from _basic(value[6:].strip())


def cookie_secrets(lines: Iterable[str]) -> Iterator[str]:
    """Yield the values of Set-Cookie lines that are long enough to be secrets."""
    for line in lines:
        value = line.partition(";")[0].partition("=")[2].strip()
        if len(value) >= MIN_COOKIE:
            yield from (value, unquote(value))


class Secrets:
    """The secrets that the requests of one task have sent or received."""

    __slots__ = ("_cookies", "_headers", "_proxies", "_texts")

    def __init__(self) -> None:
        self._headers: list[Mapping[str, str]] = []
        self._cookies: list[str] = []  # Set-Cookie lines
        self._proxies: set[str] = set()
        self._texts: list[str] = []

    def sent(self, headers: Mapping[str, str], proxy: str | None = None) -> None:
        """Remember the headers of a request and the URL of its proxy."""
        # Stored unparsed: they are needed only if something fails.
        if headers and len(self._headers) < MAX_REMEMBERED:
            self._headers.append(headers)
        if proxy and len(self._proxies) < MAX_REMEMBERED:
            self._proxies.add(proxy)

    def received(self, lines: Iterable[str]) -> None:
        """Remember the Set-Cookie lines of a response."""
        self._cookies += list(lines)[: MAX_REMEMBERED - len(self._cookies)]

    def add(self, secret: str) -> None:
        """Remember a secret."""
        if len(self._texts) < MAX_REMEMBERED:
            self._texts.append(secret)

    def hide(self, text: str) -> str:
        """Return a text without these secrets, plain or percent-encoded."""
        for secret in sorted(self._known(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _known(self) -> set[str]:
        values = {*self._texts, *cookie_secrets(self._cookies)}
        for proxy in self._proxies:
            values.update(passwords_in(proxy))
        for headers in self._headers:
            values.update(_sent_secrets(headers))
        values |= {quote(value, safe="") for value in values}
        return {value for value in values if len(value) >= MIN_SECRET}


def _sent_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in sent headers, whose cookies include those set by the host."""
    others = {name: value for name, value in headers.items() if name.lower() != "cookie"}
    yield from header_secrets(others)
    for name, value in headers.items():
        if name.lower() == "cookie":
            yield from (value, *cookie_secrets(value.split(";")))


def _basic(text: str) -> Iterator[str]:
    try:
        user, colon, password = b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return
    yield from (f"{user}{colon}{password}", password)


_current: ContextVar[Secrets | None] = ContextVar("the secrets of this task", default=None)


def begin_secrets() -> Secrets:
    """Start collecting the secrets of requests in this asyncio task and its children."""
    secrets = Secrets()
    _current.set(secrets)
    return secrets


def current_secrets() -> Secrets | None:
    """Return the collected secrets of this task; None outside of a task."""
    return _current.get()


def hidden(text: str) -> str:
    """Return a text without the secrets of the current task."""
    secrets = _current.get()
    return secrets.hide(text) if secrets else text
