"""The setting `sites`: settings that apply to the pages of some hosts only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Literal

from shoal.core.errors import InvalidSetting
from shoal.core.model import NOTHING
from shoal.core.proxies import ProxyRules
from shoal.core.redact import is_secret_header
from shoal.core.text import shorten
from shoal.core.values import hint, rate_of
from shoal.scrape.settings.declaration import Reader, absolute_words
from shoal.scrape.settings.proxies import has_password

MAX_HOSTS = 10_000  # whose settings are remembered
ANY = "*"
_CREDENTIALS = re.compile(r"\s*(bearer|basic|digest|token|negotiate)\s+\S", re.IGNORECASE)
NO_PER_HOST = (
    "cannot be set for a site: the queue counts the requests to each host, and has one limit for the run. "
    "Give the scraper the lowest per_host, or the site a rate: with one that is slower than its responses, "
    "it gets one request at a time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """The settings of the hosts that a pattern matches; None is as the scraper says."""

    delay: timedelta | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    timeout: timedelta | None = None
    fetch: str | None = None
    proxies: ProxyRules | Literal[False] | None = None  # False: a direct connection, whatever the scraper has


NO_SETTINGS = SiteSettings()


class SiteTable:
    """The settings of each site, by the pattern of its hosts."""

    def __init__(self, rules: Mapping[str, SiteSettings] = NOTHING) -> None:
        # From the least to the most specific, so that later ones win.
        self.rules = dict(sorted(rules.items(), key=lambda rule: _specificity(rule[0])))
        self._known: dict[str, SiteSettings] = {}

    def __bool__(self) -> bool:
        return bool(self.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteTable) and self.rules == other.rules

    def __hash__(self) -> int:
        return hash(tuple(self.rules))

    def find(self, url: str | None) -> SiteSettings:
        """Return the settings for a canonical URL: of each one, the value of the most specific pattern."""
        if not self.rules or url is None:
            return NO_SETTINGS
        host = url.split("/", 3)[2]
        found = self._known.get(host)
        if found is None:
            if len(self._known) >= MAX_HOSTS:
                self._known.clear()
            found = self._known[host] = self._merge(host)
        return found

    @property
    def have_proxies(self) -> bool:
        """Whether some sites have proxies of their own, or direct connections."""
        return any(site.proxies is not None for site in self.rules.values())

    @property
    def proxies(self) -> dict[str, ProxyRules]:
        """The proxies of sites that have their own, by the pattern of their hosts."""
        return {pattern: site.proxies for pattern, site in self.rules.items() if site.proxies}

    def _merge(self, host: str) -> SiteSettings:
        found = NO_SETTINGS
        for pattern, site in self.rules.items():
            if _matches(pattern, host):
                given = {
                    one.name: value for one in fields(site) if (value := getattr(site, one.name)) is not None
                }
                found = replace(found, **{**given, "headers": {**found.headers, **site.headers}})
        return found


def read_sites(key: str, value: Any, readers: Mapping[str, Reader]) -> SiteTable:
    """Read settings by patterns of hosts; raises InvalidSetting."""
    if value is None:
        return SiteTable()
    if not isinstance(value, Mapping):
        raise InvalidSetting(key, "must be settings by host, such as {'*.example.com': {'rate': '2/s'}}")
    return SiteTable(
        {_read_pattern(key, name): _read_site(key, name, one, readers) for name, one in value.items()}
    )


def _read_pattern(key: str, pattern: Any) -> str:
    text = pattern.lower() if isinstance(pattern, str) else ""
    rest = text.removeprefix("*.") if text != ANY else "host"
    if not rest or not rest.isprintable() or any(sign in rest for sign in "*/ @?#"):
        forms = "'example.com', '*.example.com' (with its subdomains), 'example.com:8080' or '*'"
        raise InvalidSetting(key, f"{shorten(repr(pattern))} is not a pattern of hosts. Write {forms}")
    return text


def _read_site(key: str, pattern: str, value: Any, readers: Mapping[str, Reader]) -> SiteSettings:
    place = f"{key}.{pattern}"
    if not isinstance(value, Mapping):
        raise InvalidSetting(
            place, f"must be settings, such as {{'rate': '2/s'}}, got {shorten(repr(value))}"
        )
    if "rate" in value and "delay" in value:
        raise InvalidSetting(place, "has rate and delay, which say the same thing; leave one of them out")
    found: dict[str, Any] = {}
    for name, one in value.items():
        if name == "per_host":
            raise InvalidSetting(f"{place}.per_host", NO_PER_HOST)
        if name not in readers:
            raise InvalidSetting(
                f"{place}.{name}", f"cannot be set for a site. {hint(str(name), sorted(readers))}"
            )
        found["delay" if name == "rate" else name] = readers[name](f"{place}.{name}", one)
    return SiteSettings(**found)


def _specificity(pattern: str) -> tuple[bool, bool, int]:
    return pattern != ANY, not pattern.startswith("*."), len(pattern)


def _matches(pattern: str, host: str) -> bool:
    name, colon, port = host.rpartition(":")
    is_port = bool(colon) and port.isdecimal()
    names = {host, name} if is_port else {host}
    if pattern.startswith("*."):
        domain = pattern[2:]
        return any(one == domain or one.endswith(f".{domain}") for one in names)
    return pattern == ANY or pattern in names


def has_credentials(headers: Any) -> bool:
    """Tell whether headers have one that is secret by its name or by its value."""
    if not isinstance(headers, Mapping):
        return False
    return any(map(is_secret_header, headers)) or any(map(_CREDENTIALS.match, map(str, headers.values())))


def has_site_secret(value: Any) -> bool:
    """Tell whether a site has secret headers, or proxies with a password."""
    sites = (
        [site for site in value.values() if isinstance(site, Mapping)] if isinstance(value, Mapping) else []
    )
    return any(has_credentials(site.get("headers")) or has_password(site.get("proxies")) for site in sites)


def with_absolute_proxies(value: Any) -> Any:
    """Return the setting with absolute paths of the files that list proxies."""
    if not isinstance(value, Mapping):
        return value
    return {
        pattern: {**site, "proxies": absolute_words(site["proxies"])}
        if isinstance(site, Mapping) and site.get("proxies")
        else site
        for pattern, site in value.items()
    }


def check_site_rates(sites: SiteTable, delay: timedelta) -> None:
    """Raise InvalidSetting for a site that would be faster than the scraper, which has no effect."""
    for pattern, site in sites.rules.items():
        if site.delay is not None and site.delay < delay:
            raise InvalidSetting(
                f"sites.{pattern}.rate",
                f"{rate_of(site.delay)} is faster than the scraper's rate, {rate_of(delay)}. Give "
                f"the scraper rate={rate_of(site.delay)!r}, and the other sites theirs: "
                f"{{'*': {{'rate': {rate_of(delay)!r}}}}}",
            )
