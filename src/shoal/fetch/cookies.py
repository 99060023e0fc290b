"""The cookies of one run in one worker, each for the very host that set it."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

MOST_HOSTS = 5_000
MOST_PER_HOST = 50
LONGEST = 4_096  # characters of one cookie
LONGEST_PER_HOST = 16_384  # more than servers accept in one header

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None"}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class Cookie(NamedTuple):
    """What a host wants to hear again, and where."""

    name: str
    value: str
    path: str
    secure: bool  # what was said over TLS is not said in the clear
    until: float | None  # None: as long as the jar
    http_only: bool = False  # no script may read it
    same_site: str = ""  # Strict, Lax or None, as CDP spells them; empty where the host does not say


class CookieJar:
    """Keeps what hosts set and says what to send them.

    A cookie goes back to the host that set it and to no other, whatever its Domain says: without a list of
    public suffixes, a cookie "for co.uk" cannot be told from one for a site.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._hosts: OrderedDict[str, dict[tuple[str, str], Cookie]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._hosts.values()))

    def header(self, url: str, host: str) -> str | None:
        """Return the Cookie header for a URL on a host, None if there is nothing to send."""
        if host not in self._hosts:
            return None
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.fitting(url, host)) or None

    def fitting(self, url: str, host: str) -> list[Cookie]:
        """Return the cookies for a URL on a host, those with the longest paths first."""
        kept = self._hosts.get(host)
        if not kept:
            return []
        now, secure, path = self._clock(), url.startswith("https:"), _path(url)
        fitting = [cookie for cookie in kept.values() if _fits(cookie, path, secure, now)]
        fitting.sort(key=lambda cookie: -len(cookie.path))
        return fitting

    def keep(self, url: str, host: str, lines: Iterable[str]) -> None:
        """Take in the Set-Cookie lines of an answer from a URL on a host."""
        for line in lines:
            cookie = _read(line, url, self._clock())
            if cookie:
                self._put(host, cookie)

    def _put(self, host: str, cookie: Cookie) -> None:
        kept = self._hosts.setdefault(host, {})
        self._hosts.move_to_end(host)
        kept.pop((cookie.name, cookie.path), None)
        if cookie.until is None or cookie.until > self._clock():
            kept[cookie.name, cookie.path] = cookie
        while len(kept) > MOST_PER_HOST or sum(map(_size, kept.values())) > LONGEST_PER_HOST:
            kept.pop(next(iter(kept)))
        if len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)


def _read(line: str, url: str, now: float) -> Cookie | None:
    """Return the cookie that a Set-Cookie line holds, None if it is none or may not be set from here."""
    pair, *rest = line[: 2 * LONGEST].split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or len(name) + len(value) > LONGEST or _CONTROLS.search(name + value):
        return None
    facts = {key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in rest)}
    is_private = url.startswith("https:")
    if "secure" in facts and not is_private:
        return None
    path = facts.get("path", "")
    return Cookie(
        name,
        value,
        path if path.startswith("/") else _folder(url),
        is_private,
        _until(facts, now),
        http_only="httponly" in facts,
        same_site=_SAME_SITE.get(facts.get("samesite", "").lower(), ""),
    )


def _until(facts: dict[str, str], now: float) -> float | None:
    age = facts.get("max-age", "")
    if re.fullmatch(r"-?\d{1,12}", age):
        return now + int(age)
    try:
        return parsedate_to_datetime(facts["expires"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


def _fits(cookie: Cookie, path: str, secure: bool, now: float) -> bool:
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
