"""Translates wreq's errors into ours."""

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
)
from shoal.core.http import Proxy
from shoal.core.text import shorten
from shoal.fetch.egress import AllowedTarget

BROKEN = tuple(getattr(broken, name) for name in broken.__all__)

# Pattern in wreq's own text, our error, and its message; the first match counts.
_MEANINGS: tuple[tuple[Pattern[str], type[FetchError], str], ...] = (
    # BoringSSL says no more than that.
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED"),
        TlsFailed,
        "its certificate cannot be trusted: it has expired, is for another host, or nobody known has signed "
        "it. To see it, run: openssl s_client -connect {address} -servername {name}",
    ),
    (re.compile(r'SSL routines", .*?reason: "([A-Z0-9_]+)"'), TlsFailed, "its TLS cannot be trusted: {}"),
    (re.compile(r"code: SSL|Ssl\(|TlsStream"), TlsFailed, "its TLS connection was interrupted"),
    (re.compile(r"Parse\(TooLarge\)|over limit"), TooLarge, "its headers are larger than the limit"),
    (re.compile(r'kind: Connect,.*?message: "([^"]+)"'), ConnectFailed, "connection failed: {}"),
    (re.compile(r"IncompleteMessage"), BrokenAnswer, "it closed the connection without a response"),
    (re.compile(r"netty::Error\(Parse"), BrokenAnswer, "its response is not HTTP"),
    (
        re.compile(r"UnexpectedEof|ConnectionReset"),
        BrokenAnswer,
        "it closed the connection before the end of the response",
    ),
)

# What a proxy reports about its target: treated as if the target itself did not respond.
_UNREACHED = re.compile(r"Socks\((NetworkUnreachable|HostUnreachable|ConnectionRefused|TtlExpired)\)")
# Pattern in wreq's text about a proxy, our error, its message, and whether it is certainly the proxy's fault.
_PROXY_MEANINGS: tuple[tuple[Pattern[str], type[ProxyFailed], str, bool], ...] = (
    (re.compile(r"ProxyAuthRequired"), ProxyRefused, "it requires another user or password (407)", True),
    (
        re.compile(r"Socks\((?:NoAcceptableAuthMethods|AuthorizationRequired|PasswordAuthFailure)"),
        ProxyRefused,
        "it requires another user or password",
        True,
    ),
    (
        re.compile(r"Socks\((?:CommandNotSupported|AddressTypeNotSupported)"),
        ProxyRefused,
        "it does not resolve names or connect to other hosts",
        True,
    ),
    (
        re.compile(r"TunnelUnsuccessful|Socks\((?:ConnectionNotAllowed|General)"),
        ProxyRefused,
        "it refuses to connect",
        False,
    ),
    (re.compile(r"TunnelUnexpectedEof"), ProxyFailed, "it closed the connection", False),
    (re.compile(r"dns error"), ProxyFailed, "its name could not be resolved", True),
    (re.compile(r'reason: "([A-Z0-9_]+)"'), ProxyFailed, "its TLS cannot be trusted: {}", True),
    (re.compile(r'message: "([^"]+)"'), ProxyFailed, "connection failed: {}", True),
    (re.compile(r"Parse\(|InvalidResponseVersion"), ProxyFailed, "it is not a proxy of this kind", True),
)


def translate_proxy_error(proxy: Proxy, exc: Exception, target: AllowedTarget) -> FetchError:
    """Translate an error of a request through a proxy, and decide whether the proxy or its target failed."""
    text = str(exc).replace(target.url, "")
    if not isinstance(exc, broken.ProxyConnectionError):
        if "kind: Connect, source: Some(TimedOut)" in text:
            return ProxyFailed(proxy.name, "connection timed out", is_sure=False)
        return translate_error(exc, target)
    if found := _UNREACHED.search(text):
        words = re.sub(r"(?<!^)([A-Z])", r" \1", found[1]).lower()
        return ConnectFailed(f"{target.host}: connection through {proxy.name} failed: {words}")
    for sign, kind, meaning, is_sure in _PROXY_MEANINGS:
        if found := sign.search(text):
            return kind(proxy.name, meaning.format(*map(_plain_text, found.groups())), is_sure=is_sure)
    return ProxyFailed(proxy.name, "connection failed", is_sure=False)


def was_closed(exc: Exception) -> bool:
    """Tell whether a connection was closed before any part of a response arrived."""
    return "IncompleteMessage" in str(exc)


def translate_error(exc: Exception, target: AllowedTarget) -> FetchError:
    """Translate an error of wreq, whose own text is meant for developers."""
    if isinstance(exc, broken.TimeoutError):
        return FetchTimeout(f"{target.host} did not respond in time")
    if isinstance(exc, broken.BuilderError):
        return OutOfScope(f"Not a URL that can be fetched: {shorten(target.url)!r}: the engine rejects it")
    text = str(exc).replace(target.url, "")
    for sign, kind, meaning in _MEANINGS:
        if found := sign.search(text):
            address = target.host if ":" in target.host else f"{target.host}:443"
            words = meaning.format(*map(_plain_text, found.groups()), address=address, name=target.name)
            return kind(f"{target.host}: {words}")
    if isinstance(exc, broken.ConnectionError | broken.ProxyConnectionError):
        return ConnectFailed(f"{target.host}: connection failed")
    if isinstance(exc, broken.DecodingError):
        return BrokenAnswer(f"{target.host}: its body is not in the declared encoding")
    return BrokenAnswer(f"{target.host}: its response is incomplete")


def _plain_text(reason: str) -> str:
    return reason.replace("_", " ").lower()
