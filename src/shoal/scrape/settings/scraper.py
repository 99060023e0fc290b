"""The settings of a scraper: each one is validated when it is set."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, NOTHING, SECOND, ZERO, RunSettings
from shoal.core.patterns import searched
from shoal.core.proxies import ProxyRules
from shoal.core.text import shorten
from shoal.core.values import (
    rate_of,
    read_choice,
    read_duration,
    read_flag,
    read_positive_duration,
    read_range,
    read_rate,
    read_size,
    read_whole,
    read_words,
)
from shoal.registry.installed import installed
from shoal.scrape.other_tools import setting_instead_of
from shoal.scrape.scope import Scope
from shoal.scrape.settings.browser import read_browser
from shoal.scrape.settings.cache import CacheSettings, read_cache, read_playback, read_warc
from shoal.scrape.settings.compact import Reader, optional
from shoal.scrape.settings.dedup import DedupSettings, read_dedup
from shoal.scrape.settings.files import read_files
from shoal.scrape.settings.proxies import count_exits, read_proxies, read_site_proxies
from shoal.scrape.settings.retry import NO_RETRY_SETTINGS, RetrySettings, read_retry
from shoal.scrape.settings.sessions import SessionSettings, read_sessions
from shoal.scrape.settings.sites import SiteTable, read_sites
from shoal.scrape.settings.tokens import TokenSettings, read_tokens
from shoal.scrape.settings.tor import TorSettings, read_tor

FETCHERS = ("http", "browser", "auto")
PER_HOST = 4
PER_HOST_WITHOUT_GAP = 16
MAX_BODY = 32 << 20
FAILED_PAGES = timedelta(days=7)
# Extra time between the planned starts of a host, as a share of the gap: a request that starts a little late
# is then still far enough from the next one.
SLACK, MAX_SLACK = 0.02, timedelta(milliseconds=2)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScraperSettings:
    """The validated settings of a scraper; create them with `ScraperSettings.read(...)`."""

    mode: Literal["single", "distributed"] = "single"
    mode_given: bool = field(default=False, compare=False)  # whether `mode` was set explicitly
    delay: timedelta = SECOND
    per_host: int | None = None
    retries: int = 2
    retry: RetrySettings = NO_RETRY_SETTINGS
    timeout: timedelta = MINUTE
    lease: timedelta = 5 * MINUTE
    ttl: timedelta | None = None
    dedup: DedupSettings | None = None
    robots: bool = True
    missing: Literal["count", "dead"] = "count"  # what becomes of followed links to missing pages
    scope: Scope = field(default_factory=Scope.host)
    skip: Scope | None = None  # patterns of pages that are not fetched
    max_depth: int = 20
    max_pages: int | None = None
    max_per_pattern: int | None = None
    fetch: str | None = "http"
    engine: Literal["wreq", "aiohttp"] = "wreq"
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    user_agent: str | None = None
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"
    pause: tuple[timedelta, timedelta] | None = None
    statuses: frozenset[int] = frozenset()
    block: re.Pattern[str] | None = None
    max_body: int = MAX_BODY
    allow_private: tuple[str, ...] = ()
    cache: CacheSettings | None = None
    proxies: ProxyRules | None = None
    tokens: TokenSettings | None = None
    sessions: SessionSettings | None = None
    tor: TorSettings | None = None
    warc: Path | None = None
    playback: Path | None = None
    recrawl: bool = False
    again: str | None = None
    failed_pages: timedelta | None = FAILED_PAGES
    files: str | None = None  # where downloads are stored; None: in the folder `files`
    sites: SiteTable = field(default_factory=SiteTable)
    keep: timedelta | None = None  # how long finished runs are kept; None means for good

    @classmethod
    def read(cls, **given: Any) -> Self:
        """Read settings as users write them; raises InvalidSetting, which names the setting."""
        return cls().replace(**given)

    def replace(self, **given: Any) -> Self:
        """Return a copy of these settings with some changed and validated in the same way."""
        if "rate" in given and "delay" in given:
            raise InvalidSetting("rate", "and delay say the same thing; leave one of them out")
        changes: dict[str, Any] = {}
        for key, value in given.items():
            changes["delay" if key == "rate" else key] = _find_reader(key)(key, value)
        if "mode" in changes:
            changes["mode_given"] = True
        changed = replace(self, **changes)
        if changed.playback:
            # A playback sends no requests: no host needs a gap, and a retry returns the same recording.
            changed = replace(changed, delay=ZERO, pause=None, retries=0, cache=None, warc=None)
            changed = replace(changed, recrawl=False, again=None, tor=None, proxies=None)
            changed = replace(changed, retry=NO_RETRY_SETTINGS, dedup=None)
        if changed.tor and (changed.proxies or changed.sites.proxies):
            raise InvalidSetting("tor", "and proxies cannot be combined; turn one off, such as proxies=off")
        _check_engine(changed)
        if "sites" in changes:
            _check_site_rates(changed)
        if changed.warc and changes.get("cache"):
            raise InvalidSetting("warc", "and cache cannot be combined: a cached page would not be recorded")
        if changed.warc:
            changed = replace(changed, cache=None)
        if changed.dedup and (changed.again or changed.recrawl):
            raise InvalidSetting(
                "dedup",
                "skips what earlier runs have queued, and again fetches it; leave one of them out",
            )
        if changed.at_most_once and changes.get("retries"):
            raise InvalidSetting(
                "retries", "cannot be more than 0 with delivery='at_most_once'; leave it out"
            )
        return changed

    def run_settings(
        self, *, retries: int = 0, once: bool | None = None, exits: int | None = None
    ) -> RunSettings:
        """Return the settings that the queue needs; `retries` is the maximum over the steps.

        `once` says that every step attempts its tasks at most once; None means that `delivery` decides.
        `exits` is the number of proxies with a rate limit of their own; None means that `proxies` decides.
        """
        attempts = self.retry.policy(max(self.retries, retries) + 1).most_attempts
        exits = count_exits(self.proxies) if exits is None else exits
        gap = self.delay / exits
        return RunSettings(
            host_delay=gap + min(SLACK * gap, MAX_SLACK),
            per_host=exits * self.requests_per_host,
            max_attempts=1 if (self.at_most_once if once is None else once) else attempts,
            ttl=self.ttl,
            dedup=self.dedup.lifetime if self.dedup else None,
            dedup_steps=self.dedup.steps if self.dedup else (),
        )

    @property
    def requests_per_host(self) -> int:
        """The concurrent requests to one host: `per_host`, or the default that depends on the gap."""
        return self.per_host or (PER_HOST if self.delay else PER_HOST_WITHOUT_GAP)

    @property
    def at_most_once(self) -> bool:
        """Whether a task is claimed at most once, whatever its outcome."""
        return self.delivery == "at_most_once"


def is_setting(key: str) -> bool:
    """Tell whether a scraper has a setting of this name."""
    return key in _READERS


def _find_reader(key: str) -> Reader:
    if key in _READERS:
        return _READERS[key]
    if instead := setting_instead_of(key):
        raise InvalidSetting(key, f"is a word of Scrapy. Write {instead}")
    close = get_close_matches(key, _READERS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(sorted(_READERS))}."
    raise InvalidSetting(key, f"is not a setting of a scraper. {hint}")


def _check_engine(settings: ScraperSettings) -> None:
    """Raise InvalidSetting where a setting needs something that the HTTP engine does not support."""
    if settings.engine == "wreq":
        return
    sessions = settings.sessions
    needs = {
        "proxies": settings.proxies or settings.sites.proxies,
        "tor": settings.tor,
        "sessions.profile": sessions and sessions.profiles,
    }
    for name, value in needs.items():
        if value:
            raise InvalidSetting("engine", f"{settings.engine!r} does not support {name}; use engine='wreq'")


def _check_site_rates(settings: ScraperSettings) -> None:
    """Raise InvalidSetting for a site that would be faster than the scraper, which has no effect."""
    for pattern, site in settings.sites.rules.items():
        if site.delay is not None and site.delay < settings.delay:
            raise InvalidSetting(
                f"sites.{pattern}.rate",
                f"{rate_of(site.delay)} is faster than the scraper's rate, {rate_of(settings.delay)}. Give "
                f"the scraper rate={rate_of(site.delay)!r}, and the other sites theirs: "
                f"{{'*': {{'rate': {rate_of(settings.delay)!r}}}}}",
            )


def read_fetch(key: str, value: Any) -> str | None:
    """Read the fetcher: "http", "browser", "auto" or a plugin's, or None for steps that fetch nothing."""
    if value is None or value == "none":
        return None
    if value in FETCHERS:
        return str(value)
    return read_choice(key, value, (*FETCHERS, *(one.name for one in installed("shoal.fetchers"))))


def read_delivery(key: str, value: Any) -> str:
    """Read whether a task is claimed again when its worker dies: "at_least_once" or "at_most_once"."""
    return read_choice(key, value, ("at_least_once", "at_most_once"))


def _read_headers(key: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidSetting(key, "must be names and values, such as {'Accept-Language': 'en'}")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidSetting(key, f"has an invalid header name: {shorten(repr(name))}")
        if not isinstance(text, str) or not text.isprintable():
            raise InvalidSetting(key, f"must be one line of text for {name}")  # the value may be a secret
    return MappingProxyType(dict(value))


def _read_statuses(key: str, value: Any) -> frozenset[int]:
    if isinstance(value, str):  # as it is typed: 404,410
        value = value.replace(",", " ").split() or [value]
    elif value is None:
        value = ()
    given = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return frozenset(read_whole(key, status, least=100, most=599) for status in given)


def _read_pattern(key: str, value: Any) -> re.Pattern[str]:
    pattern = value.pattern if isinstance(value, re.Pattern) else value
    if not isinstance(pattern, str) or not pattern:
        raise InvalidSetting(key, f"must be a regular expression as text, got {shorten(repr(value))}")
    try:
        found = value if isinstance(value, re.Pattern) else re.compile(pattern, re.IGNORECASE)
        searched(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSetting(key, f"is not a regular expression: {error}") from error
    except ValueError as error:
        raise InvalidSetting(key, str(error)) from error
    return found


def _read_line(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidSetting(key, f"must be one line of text, got {shorten(repr(value))}")
    return value.strip()


def _read_private(key: str, value: Any) -> tuple[str, ...]:
    words = read_words(key, value)
    for word in words:
        if "://" in word:
            bare = word.split("://", 1)[1].split("/", 1)[0]
            raise InvalidSetting(key, f"must name hosts or networks without a scheme; write {bare!r}")
    return words


def _read_failed_pages(key: str, value: Any) -> timedelta | None:
    word = value.lower() if isinstance(value, str) else value
    if word in ("on", True):
        return FAILED_PAGES
    return None if word in (None, False, "off", "none") else read_positive_duration(key, value)


def _read_skip(key: str, value: Any) -> Scope | None:
    words = () if value is None else read_words(key, value)
    for word in words:
        if word in ("any", "host", "site"):
            raise InvalidSetting(
                key,
                f"takes patterns of pages to skip, such as '*/login*'; {word!r} is for scope. "
                "To skip nothing, write skip=none",
            )
    return Scope.read(key, list(words)) if words else None


_READERS: dict[str, Reader] = {
    "mode": partial(read_choice, known=("single", "distributed")),
    "rate": read_rate,
    "delay": lambda key, value: ZERO if value is None else read_duration(key, value),
    "per_host": optional(partial(read_whole, least=1)),
    "retries": partial(read_whole, least=0, most=100),
    "retry": read_retry,
    "timeout": read_positive_duration,
    "lease": read_positive_duration,
    "ttl": optional(read_positive_duration),
    "dedup": read_dedup,
    "robots": read_flag,
    "missing": partial(read_choice, known=("count", "dead")),
    "scope": Scope.read,
    "skip": _read_skip,
    "max_depth": partial(read_whole, least=0),
    "max_pages": optional(partial(read_whole, least=1)),
    "max_per_pattern": optional(partial(read_whole, least=1)),
    "fetch": read_fetch,
    "engine": partial(read_choice, known=("wreq", "aiohttp")),
    "browser": read_browser,
    "headers": _read_headers,
    "user_agent": optional(_read_line),
    "delivery": read_delivery,
    "pause": optional(read_range),
    "statuses": _read_statuses,
    "block": optional(_read_pattern),
    "max_body": read_size,
    "allow_private": _read_private,
    "cache": read_cache,
    "proxies": read_proxies,
    "tokens": read_tokens,
    "sessions": read_sessions,
    "tor": read_tor,
    "warc": optional(read_warc),
    "playback": optional(read_playback),
    "recrawl": read_flag,
    "again": optional(_read_line),
    "failed_pages": _read_failed_pages,
    "files": optional(read_files),
    "keep": optional(read_positive_duration),
}
_OF_SITES: dict[str, Reader] = {
    "rate": read_rate,
    "delay": _READERS["delay"],
    "headers": _read_headers,
    "timeout": read_positive_duration,
    "fetch": partial(read_choice, known=FETCHERS),
    "proxies": read_site_proxies,
}
_READERS["sites"] = partial(read_sites, readers=_OF_SITES)
SETTING_NAMES = tuple(_READERS)
