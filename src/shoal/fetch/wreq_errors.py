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
    ProxyFailed,
    ProxyRefused,
    TlsFailed,
    TooLarge,
    shorten,
)
from shoal.core.exchange import Way
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

# What a proxy says of its target: as good as the target's own silence.
_UNREACHED = re.compile(r"Socks\((NetworkUnreachable|HostUnreachable|ConnectionRefused|TtlExpired)\)")
# What wreq's own text holds of a proxy, what that means, and whether its target can have no part in it.
_PROXY_MEANINGS: tuple[tuple[Pattern[str], type[ProxyFailed], str, bool], ...] = (
    (re.compile(r"ProxyAuthRequired"), ProxyRefused, "it wants another user or password (407)", True),
    (
        re.compile(r"Socks\((?:NoAcceptableAuthMethods|AuthorizationRequired|PasswordAuthFailure)"),
        ProxyRefused,
        "it wants another user or password",
        True,
    ),
    (
        re.compile(r"Socks\((?:CommandNotSupported|AddressTypeNotSupported)"),
        ProxyRefused,
        "it does not resolve names or make connections for others",
        True,
    ),
    (
        re.compile(r"TunnelUnsuccessful|Socks\((?:ConnectionNotAllowed|General)"),
        ProxyRefused,
        "it refuses to connect",
        False,
    ),
    (re.compile(r"TunnelUnexpectedEof"), ProxyFailed, "it hung up", False),
    (re.compile(r"dns error"), ProxyFailed, "its name could not be resolved", True),
    (re.compile(r'reason: "([A-Z0-9_]+)"'), ProxyFailed, "its TLS cannot be trusted: {}", True),
    (re.compile(r'message: "([^"]+)"'), ProxyFailed, "no connection could be made: {}", True),
    (re.compile(r"Parse\(|InvalidResponseVersion"), ProxyFailed, "it is no such proxy", True),
)


def translated_by(way: Way, exc: Exception, target: Target) -> FetchError:
    """Return our error for one of wreq's that came by a proxy, and tell whose fault it is."""
    text = str(exc).replace(target.url, "")
    if not isinstance(exc, broken.ProxyConnectionError):
        if "kind: Connect, source: Some(TimedOut)" in text:
            return ProxyFailed(way.name, "no connection in time", is_sure=False)
        return translated(exc, target)
    if found := _UNREACHED.search(text):
        words = re.sub(r"(?<!^)([A-Z])", r" \1", found[1]).lower()
        return ConnectFailed(f"{target.host}: no connection could be made by {way.name}: {words}")
    for sign, kind, meaning, is_sure in _PROXY_MEANINGS:
        if found := sign.search(text):
            return kind(way.name, meaning.format(*map(_plain, found.groups())), is_sure=is_sure)
    return ProxyFailed(way.name, "no connection could be made", is_sure=False)


def was_closed(exc: Exception) -> bool:
    """Tell whether a connection was closed before any answer came."""
    return "IncompleteMessage" in str(exc)


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
