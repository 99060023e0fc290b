"""The cookies of one run in one worker, each sent only to the host that set it."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

MAX_HOSTS = 5_000
MAX_PER_HOST = 50
MAX_LENGTH = 4_096  # characters of one cookie
MAX_LENGTH_PER_HOST = 16_384  # more than servers accept in one header

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None"}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class Cookie(NamedTuple):
    """A cookie and where it is sent."""

    name: str
    value: str
    path: str
    secure: bool  # set over TLS, so never sent in the clear
    until: float | None  # when it expires; None: with the jar
    http_only: bool = False  # scripts may not read it
    same_site: str = ""  # Strict, Lax or None, as CDP spells them; empty where the host does not set it


class CookieJar:
    """Stores the cookies that hosts set and returns those to send.

    A cookie is sent only to the host that set it, whatever its Domain attribute: without a list of
    public suffixes, a cookie "for co.uk" looks the same as one for a site.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._hosts: OrderedDict[str, dict[tuple[str, str], Cookie]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._hosts.values()))

    def header(self, url: str, host: str) -> str | None:
        """Return the Cookie header for a URL on a host, None if there is no cookie to send."""
        if host not in self._hosts:
            return None
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.matching(url, host)) or None

    def matching(self, url: str, host: str) -> list[Cookie]:
        """Return the cookies for a URL on a host, those with the longest paths first."""
        stored = self._hosts.get(host)
        if not stored:
            return []
        now, secure, path = self._clock(), url.startswith("https:"), _path(url)
        matching = [cookie for cookie in stored.values() if _matches(cookie, path, secure, now)]
        matching.sort(key=lambda cookie: -len(cookie.path))
        return matching

    def store(self, url: str, host: str, lines: Iterable[str]) -> None:
        """Store the cookies of a response's Set-Cookie lines."""
        for line in lines:
            cookie = _parse(line, url, self._clock())
            if cookie:
                self._put(host, cookie)

    def _put(self, host: str, cookie: Cookie) -> None:
        stored = self._hosts.setdefault(host, {})
        self._hosts.move_to_end(host)
        stored.pop((cookie.name, cookie.path), None)
        if cookie.until is None or cookie.until > self._clock():
            stored[cookie.name, cookie.path] = cookie
        while len(stored) > MAX_PER_HOST or sum(map(_size, stored.values())) > MAX_LENGTH_PER_HOST:
            stored.pop(next(iter(stored)))
        if len(self._hosts) > MAX_HOSTS:
            self._hosts.popitem(last=False)


def _parse(line: str, url: str, now: float) -> Cookie | None:
    """Parse a Set-Cookie line; None if it is invalid or may not be set by this URL."""
    pair, *rest = line[: 2 * MAX_LENGTH].split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or len(name) + len(value) > MAX_LENGTH or _CONTROLS.search(name + value):
        return None
    attributes = {
        key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in rest)
    }
    is_private = url.startswith("https:")
    if "secure" in attributes and not is_private:
        return None
    path = attributes.get("path", "")
    return Cookie(
        name,
        value,
        path if path.startswith("/") else _folder(url),
        is_private,
        _until(attributes, now),
        http_only="httponly" in attributes,
        same_site=_SAME_SITE.get(attributes.get("samesite", "").lower(), ""),
    )


def _until(attributes: dict[str, str], now: float) -> float | None:
    age = attributes.get("max-age", "")
    if re.fullmatch(r"-?\d{1,12}", age):
        return now + int(age)
    try:
        return parsedate_to_datetime(attributes["expires"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


def _matches(cookie: Cookie, path: str, secure: bool, now: float) -> bool:
    if cookie.secure and not secure:
        return False
    if cookie.until is not None and cookie.until <= now:
        return False
    below = path.startswith(cookie.path)
    return below and (cookie.path.endswith("/") or path[len(cookie.path) :][:1] in ("", "/"))


def _size(cookie: Cookie) -> int:
    return len(cookie.name) + len(cookie.value) + len(cookie.path)


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3].partition("?")[0]


def _folder(url: str) -> str:
    return _path(url).rpartition("/")[0] or "/"
