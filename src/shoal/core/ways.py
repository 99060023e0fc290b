"""Proxies as people write them down, and the rules by which they are used."""

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
from shoal.core.exchange import Way
from shoal.core.model import MINUTE

T = TypeVar("T")
Provider = Callable[[], Iterable[str] | Awaitable[Iterable[str]]]
STRATEGIES = ("round_robin", "random", "least_used", "fastest", "sticky")
MOST_PROXIES = 100_000
EXAMPLE = "write http://user:password@host:port or socks5://host:port"
_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5h", "socks5h": "socks5h"}
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    """Where proxies come from, which of them a request takes, and when one is benched."""

    file: Path | None = None
    listed: tuple[str, ...] = field(default=(), repr=False)
    provider: Provider | None = None
    strategy: str = "round_robin"
    share: str = "all"  # or "slice": each worker has its own
    rotate: str = "request"  # or "task": all requests of a task go one way
    threshold: int = 10  # failures in a row
    duration: timedelta = 60 * MINUTE
    timeout: timedelta | None = None  # of one request, where it is less than the scraper's own
    direct: bool = False  # whether a host may be asked without a proxy when none is left
    per_exit: bool = False  # whether a host's gap is kept for each proxy by itself
    refresh: timedelta = 5 * MINUTE  # how often a provider is asked again


def read_ways(lines: Iterable[str], *, what: str, salt: bytes = b"") -> tuple[Way, ...]:
    """Read one proxy from each line; one that is written twice counts once.

    Blank lines and those that begin with # are passed over. Raises InvalidSetting with the number of a line
    that cannot be read, and without its text. Names of proxies with credentials hold a hash with the salt.
    """
    found: dict[str, Way] = {}
    for number, line in enumerate(lines, 1):
        text = str(line).strip()
        if text and not text.startswith("#"):
            way = _read(text, f"{what} {number}", salt)
            found.setdefault(way.url, way)
        if len(found) > MOST_PROXIES:
            raise InvalidSetting("proxies", f"are more than {MOST_PROXIES:,}; leave some out")
    if not found:
        raise InvalidSetting("proxies", f"are none: {what.rpartition(' ')[0] or what} names no proxy")
    return tuple(found.values())


def read_file(path: Path, *, salt: bytes = b"") -> tuple[Way, ...]:
    """Read the proxies of a file, one a line; raises InvalidSetting."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
        raise InvalidSetting("proxies", f"cannot be read from {path}: {reason.lower()}") from None
    return read_ways(text.splitlines(), what=f"{path} line", salt=salt)


def _read(text: str, place: str, salt: bytes) -> Way:
    written, has_scheme, rest = text.partition("://")
    scheme = _SCHEMES.get(written.lower()) if has_scheme else "http"
    if scheme is None:
        # Not said is what stands there: without a scheme it may be a password.
        raise InvalidSetting("proxies", f"{place}: its scheme is none of http, https and socks5; {EXAMPLE}")
    user, password, address = _credentials((rest if has_scheme else text).rstrip("/"))
    host, port = _address(address, place)
    known_as = f"{'socks5' if scheme == 'socks5h' else scheme}://{host}:{port}"
    if not user and not password:
        return Way(name=known_as, url=f"{scheme}://{host}:{port}")
    secret = f"{quote(user, safe='')}:{quote(password, safe='')}"
    mark = blake2b(secret.encode(), key=salt[:64], digest_size=4).hexdigest()
    return Way(name=f"{known_as}#{mark}", url=f"{scheme}://{secret}@{host}:{port}")


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
        raise InvalidSetting("proxies", f"{place}: names no port; {EXAMPLE}")
    if not _is_host(host):
        raise InvalidSetting("proxies", f"{place}: names no host; {EXAMPLE}")
    return host.lower(), int(port)


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return bool(_HOST.fullmatch(host))
    try:
        IPv6Address(host[1:-1])
    except ValueError:
        return False
    return host.endswith("]")


def endpoint(way: Way) -> tuple[str, int]:
    """Return the host and the port at which a proxy listens."""
    host, _, port = way.url.rpartition("/")[2].rpartition("@")[2].rpartition(":")
    return host.strip("[]"), int(port)


def shares(ways: Sequence[T], place: int, workers: int) -> Sequence[T]:
    """Return the part of a worker in this place among so many; where there are too few, some share one."""
    if workers <= 1 or not ways:
        return ways
    return ways[place::workers] or ways[place % len(ways) :: len(ways)]
