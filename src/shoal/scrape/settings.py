"""The settings of a scraper: every one of them checked when it is given."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from shoal.core.browsing import BrowserSettings
from shoal.core.errors import InvalidSetting, shorten
from shoal.core.model import MINUTE, NOTHING, SECOND, ZERO, RunSettings
from shoal.core.patterns import searched
from shoal.core.values import (
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
from shoal.core.ways import ProxyRules
from shoal.scrape.browsing import read_browser
from shoal.scrape.dedup import DedupSettings, read_dedup
from shoal.scrape.keeping import CacheSettings, read_cache, read_replay, read_warc
from shoal.scrape.proxying import exits_of, read_proxies
from shoal.scrape.retrying import NO_RETRY_SETTINGS, RetrySettings, read_retry
from shoal.scrape.scope import Scope
from shoal.scrape.sessions import SessionSettings, read_sessions
from shoal.scrape.tokens import TokenSettings, read_tokens
from shoal.scrape.tor import TorSettings, read_tor

PER_HOST = 4
PER_HOST_WITHOUT_GAP = 16
MAX_BODY = 32 << 20
# Starts of a host are planned so much further apart than they may be: one that is a little late is then not
# too near the next.
SLACK, MOST_SLACK = 0.02, timedelta(milliseconds=2)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScraperSettings:
    """What a scraper was told, read and checked; make one with `ScraperSettings.read(...)`."""

    mode: Literal["single", "distributed"] = "single"
    mode_given: bool = field(default=False, compare=False)  # whether `mode` was set, not defaulted
    delay: timedelta = SECOND
    per_host: int | None = None
    retries: int = 2
    retry: RetrySettings = NO_RETRY_SETTINGS
    timeout: timedelta = MINUTE
    lease: timedelta = 5 * MINUTE
    ttl: timedelta | None = None
    dedup: DedupSettings | None = None
    robots: bool = True
    scope: Scope = field(default_factory=Scope.host)
    max_depth: int = 20
    max_pages: int | None = None
    max_per_pattern: int | None = None
    fetch: Literal["http", "browser", "auto"] | None = "http"
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
    replay: Path | None = None
    recrawl: bool = False
    again: str | None = None

    @classmethod
    def read(cls, **given: Any) -> Self:
        """Read settings as people write them; raises InvalidSetting, which names the setting."""
        return cls().replace(**given)

    def replace(self, **given: Any) -> Self:
        """Return these settings with some changed, checked in the same way."""
        if "rate" in given and "delay" in given:
            raise InvalidSetting("rate", "and delay say the same thing; leave one of them out")
        changes: dict[str, Any] = {}
        for key, value in given.items():
            changes["delay" if key == "rate" else key] = _reader(key)(key, value)
        if "mode" in changes:
            changes["mode_given"] = True
        changed = replace(self, **changes)
        if changed.replay:
            # Nobody is asked: there is no host to spare, and what was recorded will not get better.
            changed = replace(changed, delay=ZERO, pause=None, retries=0, cache=None, warc=None)
            changed = replace(changed, recrawl=False, again=None, tor=None, proxies=None)
            changed = replace(changed, retry=NO_RETRY_SETTINGS, dedup=None)
        if changed.tor and changed.proxies:
            raise InvalidSetting("tor", "and proxies do not go together; turn one off, such as proxies=off")
        if changed.warc and changes.get("cache"):
            raise InvalidSetting("warc", "and cache do not go together: a kept page would not be recorded")
        if changed.warc:
            changed = replace(changed, cache=None)
        if changed.dedup and (changed.again or changed.recrawl):
            raise InvalidSetting(
                "dedup",
                "leaves out what earlier runs have queued, and again visits it; leave one of them out",
            )
        if changed.at_most_once and changes.get("retries"):
            raise InvalidSetting(
                "retries", "cannot be more than 0 with delivery='at_most_once'; leave it out"
            )
        return changed

    def run_settings(self, *, retries: int = 0, once: bool | None = None) -> RunSettings:
        """Return what the queue must know; `retries` is the most that one of the steps asks for.

        `once` says that every step tries its tasks once at most, as `delivery` does for those that don't say.
        """
        attempts = self.retry.policy(max(self.retries, retries) + 1).most_attempts
        exits = exits_of(self.proxies)
        gap = self.delay / exits
        return RunSettings(
            host_delay=gap + min(SLACK * gap, MOST_SLACK),
            per_host=exits * (self.per_host or (PER_HOST if self.delay else PER_HOST_WITHOUT_GAP)),
            max_attempts=1 if (self.at_most_once if once is None else once) else attempts,
            ttl=self.ttl,
            dedup=self.dedup.lifetime if self.dedup else None,
            dedup_steps=self.dedup.steps if self.dedup else (),
        )

    @property
    def at_most_once(self) -> bool:
        """Whether a task is handed out once only, whatever becomes of it."""
        return self.delivery == "at_most_once"


Reader = Callable[[str, Any], Any]


def _reader(key: str) -> Reader:
    if key in _READERS:
        return _READERS[key]
    close = get_close_matches(key, _READERS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(sorted(_READERS))}."
    raise InvalidSetting(key, f"is not a setting of a scraper. {hint}")


def _optional(reader: Reader) -> Reader:
    return lambda key, value: None if value is None else reader(key, value)


def read_fetch(key: str, value: Any) -> str | None:
    """Read how pages come home: "http", "browser" or "auto", or None for steps that fetch nothing."""
    return None if value is None or value == "none" else read_choice(key, value, ("http", "browser", "auto"))


def read_delivery(key: str, value: Any) -> str:
    """Read whether a task is handed out again when its worker dies: "at_least_once" or "at_most_once"."""
    return read_choice(key, value, ("at_least_once", "at_most_once"))


def _headers(key: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidSetting(key, "must be names and values, such as {'Accept-Language': 'en'}")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidSetting(key, f"holds a name that HTTP cannot send: {shorten(repr(name))}")
        if not isinstance(text, str) or not text.isprintable():
            raise InvalidSetting(key, f"must hold one line of text for {name}")  # the value may be a secret
    return MappingProxyType(dict(value))


def _statuses(key: str, value: Any) -> frozenset[int]:
    given = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return frozenset(read_whole(key, status, least=100, most=599) for status in given)


def _pattern(key: str, value: Any) -> re.Pattern[str]:
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


def _line(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidSetting(key, f"must be one line of text, got {shorten(repr(value))}")
    return value.strip()


def _private(key: str, value: Any) -> tuple[str, ...]:
    words = read_words(key, value)
    for word in words:
        if "://" in word:
            bare = word.split("://", 1)[1].split("/", 1)[0]
            raise InvalidSetting(key, f"must name hosts or networks without a scheme; write {bare!r}")
    return words


_READERS: dict[str, Reader] = {
    "mode": partial(read_choice, known=("single", "distributed")),
    "rate": read_rate,
    "delay": lambda key, value: ZERO if value is None else read_duration(key, value),
    "per_host": _optional(partial(read_whole, least=1)),
    "retries": partial(read_whole, least=0, most=100),
    "retry": read_retry,
    "timeout": read_positive_duration,
    "lease": read_positive_duration,
    "ttl": _optional(read_positive_duration),
    "dedup": read_dedup,
    "robots": read_flag,
    "scope": Scope.read,
    "max_depth": partial(read_whole, least=0),
    "max_pages": _optional(partial(read_whole, least=1)),
    "max_per_pattern": _optional(partial(read_whole, least=1)),
    "fetch": read_fetch,
    "browser": read_browser,
    "headers": _headers,
    "user_agent": _optional(_line),
    "delivery": read_delivery,
    "pause": _optional(read_range),
    "statuses": _statuses,
    "block": _optional(_pattern),
    "max_body": read_size,
    "allow_private": _private,
    "cache": read_cache,
    "proxies": read_proxies,
    "tokens": read_tokens,
    "sessions": read_sessions,
    "tor": read_tor,
    "warc": _optional(read_warc),
    "replay": _optional(read_replay),
    "recrawl": read_flag,
    "again": _optional(_line),
}
