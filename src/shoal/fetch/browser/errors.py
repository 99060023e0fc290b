"""Translates Chromium's network errors into ours."""

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    FetchError,
    FetchTimeout,
    OutOfScope,
    TlsFailed,
)
from shoal.core.text import shorten

_KINDS: tuple[tuple[str, type[FetchError]], ...] = (
    ("ERR_NAME_", DnsFailed),
    ("ERR_CERT_", TlsFailed),
    ("ERR_SSL_", TlsFailed),
    ("ERR_BAD_SSL", TlsFailed),
    ("ERR_TOO_MANY_REDIRECTS", OutOfScope),
    ("ERR_UNSAFE_", OutOfScope),
    ("ERR_BLOCKED_BY_", OutOfScope),
    ("ERR_DISALLOWED_URL_SCHEME", OutOfScope),
    ("ERR_UNKNOWN_URL_SCHEME", OutOfScope),
    ("ERR_TIMED_OUT", FetchTimeout),
    ("ERR_CONNECTION_TIMED_OUT", FetchTimeout),
    ("ERR_CONNECTION_REFUSED", ConnectFailed),
    ("ERR_CONNECTION_FAILED", ConnectFailed),
    ("ERR_ADDRESS_", ConnectFailed),
    ("ERR_TUNNEL_", ConnectFailed),
    ("ERR_PROXY_", ConnectFailed),
)


def translate_error(text: str, url: str) -> FetchError:
    """Translate a Chromium error, such as net::ERR_CERT_DATE_INVALID."""
    name = text.removeprefix("net::")
    kind = next((kind for start, kind in _KINDS if name.startswith(start)), BrokenAnswer)
    return kind(f"{shorten(url)}: the browser reports {name}")
