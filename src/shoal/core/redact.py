"""Removes passwords, cookies and tokens from texts."""

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

HIDDEN = "…"
MAX_TEXT = 8_000  # characters of one text that are logged
MAX_PARAMETER = 40  # characters of a value in a query; a longer one may be a secret
MIN_SECRET = 4  # characters; hiding shorter ones would hide half of every line

# A password may contain a slash or an "@", so everything up to the last "@" of the word is hidden.
_USERINFO = re.compile(r"(://)(?:[^\s/?#@:]*:\S*|[^\s/?#@]*)@")
_PASSWORD = re.compile(r"(://[^\s/?#@:]*:)\S*@")
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl_?)?password=)[^&\s]+")
_EACH_PASSWORD = re.compile(r"://[^\s/?#@:]*:([^\s@]+)@")
# The name of a proxy with credentials ends in a salted hash, which is no secret.
_PROXY_NAME = r"""://[^\s/?#]+#[0-9a-f]{8}(?=["'\s]|$|[,;:)\]](?:\s|$))"""
_QUERY = re.compile(rf"(?!{_PROXY_NAME})(://[^\s?#]*)([?#]\S*)")
_PARAMETER = re.compile(r"([?&;])([^?&;=]*)(=?)([^?&;]*)")
_FIELDS = r"(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token"
_QUOTED_FIELD = re.compile(rf"(?i)\b({_FIELDS})(['\"]\s*[:,=]\s*b?)(['\"]).*?(?:\3|$)")
_PLAIN_FIELD = re.compile(rf"(?i)\b({_FIELDS})(\s*[:=]\s*)(?!['\"])[^\r\n]+")
_SCHEME = re.compile(r"(?i)\b(bearer|basic|digest)(\s+)(?=\S*[\d=+/_.-]|\S{12})\S+")
_NAMED = re.compile(
    r"(?i)(passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key|session[_-]?id)"
    r"(['\"]?\s*[=:]\s*['\"]?)(?!\s)[^\s,;&'\"]+"
)

_SECRET_WORDS = (
    "auth",
    "cookie",
    "credential",
    "csrf",
    "jwt",
    "key",
    "pass",
    "private",
    "secret",
    "sess",
    "sig",
    "token",
    "xsrf",
)

Redact = Callable[[str], str]


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name carries a secret for its host."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def redacted(text: str) -> str:
    """Return a text without the secrets that its syntax reveals, cut to a maximum length."""
    if len(text) > MAX_TEXT:
        # Cut between words: half a secret would not be recognised.
        text = f"{text[:MAX_TEXT].rpartition(' ')[0]} {HIDDEN}"
    if "://" in text:
        text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
        text = _QUERY.sub(lambda found: found[1] + _shown_query(found[2]), text)
    text = _QUOTED_FIELD.sub(rf"\1\2\3{HIDDEN}\3", text)
    text = _PLAIN_FIELD.sub(rf"\1\2{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    return _NAMED.sub(rf"\1\2{HIDDEN}", text)


def passwords_in(address: str) -> Iterator[str]:
    """Yield the passwords in an address, percent-encoded and decoded."""
    # The last "@" of an address ends its password, which may contain others; an address may contain another.
    for one in address.split():  # also of a text with several, which is refused
        userinfo = one.partition("://")[2].partition("?")[0].rpartition("@")[0]
        for password in (userinfo.partition(":")[2], *_EACH_PASSWORD.findall(one)):
            yield from {password, unquote(password)} - {""}


def shown_address(url: str) -> str:
    """Return a server's address with its user, but without the password or that of its key."""
    return _PASSWORD_OPTION.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1{HIDDEN}@", url))


def shown_url(url: str) -> str:
    """Return a URL without its user and fragment; of its query, values that may be secrets are hidden."""
    bare, mark, query = _USERINFO.sub(r"\1", url).partition("#")[0].partition("?")
    return bare + _shown_query(mark + query) if query else bare


def _shown_query(text: str) -> str:
    """Return a query, from its "?" on, without values that may be secrets; a fragment is hidden."""
    query, mark, _ = text.partition("#")
    return _PARAMETER.sub(_shown_parameter, query) + (f"#{HIDDEN}" if mark else "")


def _shown_parameter(found: re.Match[str]) -> str:
    mark, name, equals, value = found.groups()
    if not equals:
        return f"{mark}{HIDDEN}" if name else mark
    is_secret = (
        len(value) > MAX_PARAMETER or "@" in value or "://" in value or is_secret_header(unquote(name))
    )
    return f"{mark}{name}={HIDDEN}" if is_secret else found[0]


def bare_url(url: str) -> str:
    """Return a URL without its user, its query and its fragment."""
    return _USERINFO.sub(r"\1", url).partition("#")[0].partition("?")[0]


def redactor(secrets: Iterable[str] = ()) -> Redact:
    """Return a function that hides these secrets and everything that `redacted` hides."""
    known = sorted({secret for secret in secrets if len(secret) >= MIN_SECRET}, key=len, reverse=True)
    if not known:
        return redacted
    literal = re.compile("|".join(map(re.escape, known)))
    return lambda text: redacted(literal.sub(HIDDEN, text))
