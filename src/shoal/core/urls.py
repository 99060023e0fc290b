"""URLs: canonical form, host, site and fingerprint, by the WHATWG rules and the Public Suffix List."""

import atexit
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from string import ascii_letters, digits

import can_ada
from publicsuffixlist import PublicSuffixList

from shoal.core.errors import InvalidUrl

MAX_URL = 8192  # bytes, before and after
MAX_PORT = 65535
OBJECT_SCHEMES = ("s3", "gs", "az")
MAX_HOST = 253  # characters of a name, as in DNS; without the port

_WEB = ("http://", "https://")
EDGES = "".join(map(chr, range(0x21)))  # characters that WHATWG strips from both ends
REMOVED = dict.fromkeys(map(ord, "\t\r\n"))  # characters that it removes anywhere
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"[/\\]*([^/\\?#]*)")
_PORT = re.compile(r":0*([^\]:]*)$")
# A slash inside a password ends the authority, so what follows a colon is hidden up to the "@" as well.
_USERINFO = re.compile(r"^((?>[^/\\?#:@]*:)?+[/\\]*+)(?:[^/\\?#]*|[^/\\?#]*:.*)@", re.DOTALL)
# Escapes that are not normalised yet: with a lower-case digit, or of an unreserved character.
# Not after a stray "%" or "%f": decoding there would form a new escape, as in "%%32e".
_ODD_ESCAPE = re.compile(
    r"%(?<!%%)(?<!%[0-9A-Fa-f]%)"
    r"(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)"
)
_UNRESERVED = frozenset(f"{ascii_letters}{digits}-._~")
_last = ("no URL yet", "")  # what `canonical_with_host` has returned last


def canonical(url: str) -> str:
    """Return the canonical form of a URL; raises InvalidUrl."""
    return canonical_with_host(url)[0]


def canonical_with_host(url: str) -> tuple[str, str]:
    """Return the canonical URL and its host, the politeness key; raises InvalidUrl."""
    global _last
    found = _last
    # A source makes the URL of each seed canonical, and the queue does so again with the same object.
    if url is not found[0]:
        _last = found = _read(url, can_ada.parse)
    return found


def is_object_url(text: str) -> bool:
    """Return whether a text is the address of something in object storage, such as s3://bucket/path."""
    scheme, colon, _ = text.partition("://")
    return bool(colon) and scheme.lower() in OBJECT_SCHEMES


def host_of(url: str) -> str:
    """Return a URL's politeness key: its host, and its port unless that is the default; raises InvalidUrl."""
    return canonical_with_host(url)[1]


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the site of a host as `host_of` gives it: `example.co.uk` for `shop.example.co.uk:8080`."""
    name = name_of(host)
    # IP addresses and names without a public suffix, such as localhost, are sites of their own. So is a name
    # with a trailing dot: the package would drop the dot.
    return name if name.endswith(".") else _suffix_list().privatesuffix(name, accept_unknown=False) or name


@lru_cache(maxsize=4096)
def registrable_domain(name: str) -> str | None:
    """Return the shortest domain above a host name that is no public suffix; None for an IP address.

    A top-level domain that the list does not have is a public suffix, as in browsers.
    """
    if name.endswith((".", "]")) or name.rpartition(".")[2].isdecimal():
        return None
    return _suffix_list().privatesuffix(name, accept_unknown=True)


def name_of(host: str) -> str:
    """Return a host without its port."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


@cache
def _suffix_list() -> "PublicSuffixList":
    # Loaded on first use: import and list take about 90 ms, and only sites and wide cookies need them.

    return PublicSuffixList()


def join(base: str, href: str) -> str:
    """Return the canonical URL of a link on the page `base`; raises InvalidUrl."""
    return _read(href, _base(base).__add__, scheme="https")[0]


def join_all(base: str, hrefs: Iterable[str]) -> dict[str, None]:
    """Return the canonical URLs of links on the page `base`, in order; what is no web address is left out."""
    found: dict[str, None] = {}
    try:
        page = _base(base)
    except InvalidUrl:
        return found
    parse, origin = page.__add__, "/".join([*str(page).split("/", 3)[:3], ""])
    for href in hrefs:
        try:
            url = str(parse(href)) if len(href) <= MAX_URL // 4 else ""
            # Most links lead to the same host, which is canonical, and have nothing to normalise.
            if not url.startswith(origin) or "%" in url or "#" in url or url[-1] == "?" or len(url) > MAX_URL:
                url = _read(href, parse, "https")[0]
        except (InvalidUrl, ValueError, TypeError, AttributeError):
            continue  # mailto:, javascript: and invalid URLs
        found[url] = None
    return found


def fingerprint(url: str) -> bytes:
    """Return 16 bytes that two URLs share only if their canonical forms are equal; raises InvalidUrl."""
    return blake2b(canonical(url).encode(), digest_size=16).digest()


@lru_cache(maxsize=64)
def _base(url: str) -> can_ada.URL:
    # All links of a page are joined with the same base, so it is parsed once.
    return can_ada.parse(canonical(url))


# The parser's binding reports objects that outlive the interpreter as leaked.
atexit.register(_base.cache_clear)


def _read(text: str, parse: Callable[[str], can_ada.URL], scheme: str = "") -> tuple[str, str]:
    """Return the canonical URL and its host: the parser's form, normalised where WHATWG leaves a choice."""
    href = _parsed(text, parse, scheme)
    if "%" in href:
        href = _ODD_ESCAPE.sub(_normal, href)
    if "#" in href:
        href = href[: href.index("#")]
    if href[-1] == "?" and href.index("?") == len(href) - 1:
        href = href[:-1]
    host = href.split("/", 3)[2]
    if "@" in host:
        raise _refusal(text, "it contains a user name or password; send them in a header instead")
    if host[-1] == "." or ".:" in host:
        href, host = _without_root(href, host)
    if len(href) > MAX_URL:
        raise _refusal(text, _too_long(len(href)))
    if len(host) > MAX_HOST and len(name := host.rpartition(":")[0] or host) > MAX_HOST:
        raise _refusal(text, f"its host has {len(name):,} characters, but a DNS name has at most {MAX_HOST}")
    return href, host


def _parsed(text: str, parse: Callable[[str], can_ada.URL], scheme: str) -> str:
    try:
        size = len(text.encode())
        href = str(parse(text)) if size <= MAX_URL else ""
    except (ValueError, TypeError, AttributeError) as error:
        raise _refusal(text, _why(text, scheme)) from error
    if not href.startswith(_WEB):
        raise _refusal(text, _why(text, scheme) if href else _too_long(size))
    # The parser escapes control characters: without a "%" in the result, there were none.
    if "%" in href and not text.isprintable() and _CONTROLS.search(text.strip(EDGES)):
        raise _refusal(text, "it contains a control character; remove it, or write it as %XX")
    return href


def _normal(escape: re.Match[str]) -> str:
    char = chr(int(escape[0][1:], 16))
    return char if char in _UNRESERVED else escape[0].upper()


def _without_root(href: str, host: str) -> tuple[str, str]:
    # "example.com." is example.com in DNS: as a separate host it would get twice the request rate.
    name, colon, port = host.partition(":")
    if name[-2:-1] in ("", "."):
        return href, host
    bare = f"{name[:-1]}{colon}{port}"
    return href.replace(host, bare, 1), bare


def _refusal(text: object, reason: str) -> InvalidUrl:
    # The error reaches logs and dead letters; a password in an invalid URL must not.
    shown = text.translate(REMOVED) if isinstance(text, str) else repr(text)
    return InvalidUrl(_USERINFO.sub(r"\1…@", shown), reason)


def _too_long(size: int) -> str:
    return f"it has {size:,} bytes, the limit is {MAX_URL:,}; move the long part to the payload"


def _why(text: object, scheme: str) -> str:
    """Return why a text is not a web URL, and how to fix it."""
    if not isinstance(text, str):
        return f"it is of type {type(text).__name__}; pass a str"
    bare = text.strip(EDGES).translate(REMOVED)
    if not bare:
        return "it is empty; write https://…"
    if any("\ud800" <= char <= "\udfff" for char in bare):
        return "it contains half a surrogate pair; decode the page it came from with the right encoding"
    if found := _SCHEME.match(bare):
        scheme = found[1].lower()
    if not scheme or "." in scheme or scheme == "localhost":  # "example.com:8080" has a port, not a scheme
        return "it has no scheme; write it in full: https://…"
    if scheme not in ("http", "https"):
        return f"its scheme is {scheme!r}; only http and https can be fetched"
    return _why_authority(bare[found.end() :] if found else bare)


def _why_authority(rest: str) -> str:
    # Quote nothing: a password with a slash in it looks like a port.
    authority = _AUTHORITY.match(rest)
    host = authority[1].rpartition("@")[2] if authority else ""
    if not host or host[0] == ":":
        return "it has no host; write https://example.com/…"
    port = _PORT.search(host)
    if port and port[1] and not (port[1].isdecimal() and len(port[1]) < 6 and int(port[1]) <= MAX_PORT):
        return f"its port is not a number from 0 to {MAX_PORT}; fix it or leave it out"
    return "its host is not a valid name or address; check its spelling"


def origin_of(url: str) -> str:
    """Return the scheme and the host of a canonical URL."""
    return "/".join(url.split("/", 3)[:3])


def bare_host(url: str) -> str:
    """Return the host of a canonical URL; example.com and www.example.com count as one."""
    return url.split("/", 3)[2].removeprefix("www.")
