"""What wreq's errors mean to us."""

import re
from re import Pattern

from wreq import exceptions as broken

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    OutOfScope,
    TlsFailed,
    TooLarge,
    shorten,
)
from shoal.fetch.egress import Target

BROKEN = tuple(getattr(broken, name) for name in broken.__all__)

# What wreq's own text holds, and what that means; the first that is found counts.
_MEANINGS: tuple[tuple[Pattern[str], type[FetchError], str], ...] = (
    (re.compile(r'SSL routines", .*?reason: "([A-Z0-9_]+)"'), TlsFailed, "its TLS cannot be trusted: {}"),
    (re.compile(r"code: SSL|Ssl\(|TlsStream"), TlsFailed, "its TLS broke off"),
    (re.compile(r"Parse\(TooLarge\)|over limit"), TooLarge, "its headers are larger than the limit"),
    (re.compile(r'kind: Connect,.*?message: "([^"]+)"'), ConnectFailed, "no connection could be made: {}"),
    (re.compile(r"IncompleteMessage"), BrokenAnswer, "it hung up without an answer"),
    (re.compile(r"netty::Error\(Parse"), BrokenAnswer, "its answer is not HTTP"),
    (re.compile(r"UnexpectedEof|ConnectionReset"), BrokenAnswer, "it hung up before the end of the answer"),
)


def translated(exc: Exception, target: Target) -> FetchError:
    """Return our error for one of wreq's, whose own text is for programmers."""
    if isinstance(exc, broken.TimeoutError):
        return FetchTimeout(f"{target.host} did not answer in time")
    if isinstance(exc, broken.BuilderError):
        return OutOfScope(f"Not a URL that can be fetched: {shorten(target.url)!r}: the engine refuses it")
    text = str(exc).replace(target.url, "")
    for sign, kind, meaning in _MEANINGS:
        if found := sign.search(text):
            return kind(f"{target.host}: {meaning.format(*map(_plain, found.groups()))}")
    if isinstance(exc, broken.ConnectionError | broken.ProxyConnectionError):
        return ConnectFailed(f"{target.host}: no connection could be made")
    if isinstance(exc, broken.DecodingError):
        return BrokenAnswer(f"{target.host}: its body is not in the encoding that it claims")
    return BrokenAnswer(f"{target.host}: its answer broke off")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
