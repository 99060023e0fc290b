"""The cookies of one run in one worker, each sent to the host that set it or the domain that it names."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from shoal.core.http import Cookie
from shoal.core.urls import name_of, registrable_domain
from shoal.fetch.status import parse_date

MAX_HOSTS = 5_000  # and as many sites
MAX_PER_HOST = 50  # of a host alone, and of all domains of a site together
MAX_LENGTH = 4_096  # characters of one cookie
MAX_LENGTH_PER_HOST = 16_384  # more than servers accept in one header

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None"}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")

_Key = tuple[str, str, str]  # domain, name and path
_Stored = OrderedDict[str, dict[_Key, Cookie]]


class CookieJar:
    """Stores the cookies that hosts set and returns those to send.

    A cookie with a Domain is sent to that domain and its sub-domains, never to a public suffix such as co.uk.
    A host is a name with its port: no cookie goes to another port.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._hosts, self._sites = _Stored(), _Stored()  # cookies without and with a domain

    def header(self, url: str, host: str) -> str | None:
        """Return the Cookie header for a URL on a host, None if there is no cookie to send."""
        if host not in self._hosts and not self._sites:
            return None
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.matching(url, host)) or None

    def matching(self, url: str, host: str) -> list[Cookie]:
        """Return the cookies for a URL on a host, those with the longest paths first."""
        stored = [*self._hosts.get(host, {}).values(), *self._for_site_of(host)]
        if not stored:
            return []
        now, secure, path = self._clock(), url.startswith("https:"), _path(url)
        matching = [cookie for cookie in stored if _matches(cookie, path, secure, now)]
        matching.sort(key=lambda cookie: -len(cookie.path))
        return matching

    def store(self, url: str, host: str, lines: Iterable[str]) -> None:
        """Store the cookies of a response's Set-Cookie lines; those that the host may not set are ignored."""
        for line in lines:
            cookie = _parse(line, url, name_of(host), self._clock())
            if cookie is None:
                continue
            if cookie.domain:
                self._put(self._sites, _site_key(host), cookie)
            else:
                self._put(self._hosts, host, cookie)

    def _for_site_of(self, host: str) -> list[Cookie]:
        # The list of suffixes is loaded for the first cookie with a domain, not for the first request.
        stored = self._sites and self._sites.get(_site_key(host))
        name = name_of(host)
        return [one for one in stored.values() if _is_within(name, one.domain)] if stored else []

    def _put(self, kind: _Stored, owner: str, cookie: Cookie) -> None:
        key, stored = (cookie.domain, cookie.name, cookie.path), kind.setdefault(owner, {})
        kind.move_to_end(owner)
        stored.pop(key, None)
        if cookie.until is None or cookie.until > self._clock():
            stored[key] = cookie
        while len(stored) > MAX_PER_HOST or sum(map(_size, stored.values())) > MAX_LENGTH_PER_HOST:
            stored.pop(next(iter(stored)))
        if len(kind) > MAX_HOSTS:
            kind.popitem(last=False)


def _site_key(host: str) -> str:
    """Return the site of a host with its port; not a host's own key, since it ends in a colon or a port."""
    name = name_of(host)
    return f"{registrable_domain(name) or name}:{host[len(name) + 1 :]}"


def _is_within(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")


def _read_domain(text: str, name: str) -> str | None:
    """Return the domain of a cookie, empty for the host alone; None if this host may not set it."""
    domain = text.lower().removeprefix(".")
    if not domain:
        return ""
    site = registrable_domain(name)
    if site is None:  # an IP address or a public suffix sets cookies for itself only
        return "" if domain == name else None
    return domain if _is_within(name, domain) and _is_within(domain, site) else None


def _parse(line: str, url: str, name_of_host: str, now: float) -> Cookie | None:
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
    domain = _read_domain(attributes.get("domain", ""), name_of_host)
    if domain is None:
        return None
    path = attributes.get("path", "")
    if not _keeps_prefix(name.lower(), attributes, path, domain):
        return None
    return Cookie(
        name,
        value,
        path if path.startswith("/") else _folder(url),
        is_private,
        _until(attributes, now),
        http_only="httponly" in attributes,
        same_site=_SAME_SITE.get(attributes.get("samesite", "").lower(), ""),
        domain=domain,
    )


def _keeps_prefix(name: str, attributes: dict[str, str], path: str, domain: str) -> bool:
    """Return whether a cookie keeps what its name promises: that no other host of the site has set it."""
    if name.startswith("__host-"):
        return "secure" in attributes and path == "/" and not domain
    return "secure" in attributes or not name.startswith("__secure-")


def _until(attributes: dict[str, str], now: float) -> float | None:
    age = attributes.get("max-age", "")
    if re.fullmatch(r"-?\d{1,12}", age):
        return now + int(age)
    until = parse_date(attributes.get("expires", ""))
    return until.timestamp() if until else None


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
