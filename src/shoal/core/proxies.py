"""Parses proxy lists, and holds the rules for using proxies."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from ipaddress import IPv6Address
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from shoal.core.errors import InvalidSetting
from shoal.core.http import Proxy
from shoal.core.model import MINUTE

T = TypeVar("T")
Provider = Callable[[], Iterable[str] | Awaitable[Iterable[str]]]
STRATEGIES = ("round_robin", "random", "least_used", "fastest", "sticky")
MAX_PROXIES = 100_000
EXAMPLE = "write http://user:password@host:port or socks5://host:port"
_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5h", "socks5h": "socks5h"}
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    """Where proxies come from, which one a request uses, and when one is benched."""

    file: Path | None = None
    listed: tuple[str, ...] = field(default=(), repr=False)
    provider: Provider | None = None
    strategy: str = "round_robin"
    share: str = "all"  # or "slice": each worker gets its own part
    rotate: str = "request"  # or "task": all requests of a task use one proxy
    threshold: int = 10  # failures in a row
    duration: timedelta = 60 * MINUTE
    timeout: timedelta | None = None  # of one request, if shorter than the scraper's own
    direct: bool = False  # whether requests go out directly when every proxy is benched
    per_exit: bool = False  # whether the host's rate limit applies to each proxy separately
    refresh: timedelta = 5 * MINUTE  # how often the provider is called again


def read_proxy_list(lines: Iterable[str], *, what: str, salt: bytes = b"") -> tuple[Proxy, ...]:
    """Read one proxy per line; duplicates count once.

    Blank lines and lines that start with # are skipped. Raises InvalidSetting with the number of an invalid
    line, without its text. The names of proxies with credentials contain a salted hash.
    """
    found: dict[str, Proxy] = {}
    for number, line in enumerate(lines, 1):
        text = str(line).strip()
        if text and not text.startswith("#"):
            proxy = _read(text, f"{what} {number}", salt)
            found.setdefault(proxy.url, proxy)
        if len(found) > MAX_PROXIES:
            raise InvalidSetting("proxies", f"are more than {MAX_PROXIES:,}; remove some")
    if not found:
        raise InvalidSetting("proxies", f"are missing: {what.rpartition(' ')[0] or what} has no proxy")
    return tuple(found.values())


def read_file(path: Path, *, salt: bytes = b"") -> tuple[Proxy, ...]:
    """Read the proxies of a file, one per line; raises InvalidSetting."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
        raise InvalidSetting("proxies", f"cannot be read from {path}: {reason.lower()}") from None
    return read_proxy_list(text.splitlines(), what=f"{path} line", salt=salt)


def _read(text: str, place: str, salt: bytes) -> Proxy:
    written, has_scheme, rest = text.partition("://")
    scheme = _SCHEMES.get(written.lower()) if has_scheme else "http"
    if scheme is None:
        # Do not quote it: without a scheme it may be a password.
        raise InvalidSetting("proxies", f"{place}: the scheme must be http, https or socks5; {EXAMPLE}")
    user, password, address = _credentials((rest if has_scheme else text).rstrip("/"))
    host, port = _address(address, place)
    known_as = f"{'socks5' if scheme == 'socks5h' else scheme}://{host}:{port}"
    if not user and not password:
        return Proxy(name=known_as, url=f"{scheme}://{host}:{port}")
    secret = f"{quote(user, safe='')}:{quote(password, safe='')}"
    mark = blake2b(secret.encode(), key=salt[:64], digest_size=4).hexdigest()
    return Proxy(name=f"{known_as}#{mark}", url=f"{scheme}://{secret}@{host}:{port}")


def _credentials(text: str) -> tuple[str, str, str]:
    """Return user, password and address, of `user:password@host:port` or `host:port:user:password`."""
    userinfo, has_user, address = text.rpartition("@")
    if has_user:
        user, _, password = userinfo.partition(":")
        return unquote(user), unquote(password), address
    parts = text.split(":", 3)
    if len(parts) == 4 and not text.startswith("["):
        return parts[2], parts[3], f"{parts[0]}:{parts[1]}"
    return "", "", text


def _address(text: str, place: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536:
        raise InvalidSetting("proxies", f"{place}: has no valid port; {EXAMPLE}")
    if not _is_host(host):
        raise InvalidSetting("proxies", f"{place}: has no valid host; {EXAMPLE}")
    return host.lower(), int(port)


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return bool(_HOST.fullmatch(host))
    try:
        IPv6Address(host[1:-1])
    except ValueError:
        return False
    return host.endswith("]")


def endpoint(proxy: Proxy) -> tuple[str, int]:
    """Return the host and the port of a proxy."""
    host, _, port = proxy.url.rpartition("/")[2].rpartition("@")[2].rpartition(":")
    return host.strip("[]"), int(port)


def shares(proxies: Sequence[T], index: int, workers: int) -> Sequence[T]:
    """Return the part of worker `index` of `workers`; with too few proxies, some workers share one."""
    if workers <= 1 or not proxies:
        return proxies
    return proxies[index::workers] or proxies[index % len(proxies) :: len(proxies)]
