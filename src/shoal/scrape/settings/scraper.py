"""The settings of a scraper: each one is validated when it is set."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, NOTHING, SECOND, ZERO, RunSettings
from shoal.core.proxies import ProxyRules
from shoal.core.revisits import RevisitBounds
from shoal.core.values import (
    read_choice,
    read_flag,
    read_positive_duration,
    read_range,
    read_rate,
    read_size,
    read_whole,
)
from shoal.scrape.other_tools import setting_instead_of
from shoal.scrape.scope import Scope
from shoal.scrape.settings.declaration import (
    FETCHING,
    RECORDING,
    SEEDS,
    Setting,
    SettingOption,
    absolute_path,
    absolute_words,
    declared,
    optional,
    setting,
)
from shoal.scrape.settings.expect import Expectations, read_expect
from shoal.scrape.settings.proxies import (
    TorSettings,
    count_exits,
    has_password,
    read_proxies,
    read_site_proxies,
    read_tor,
)
from shoal.scrape.settings.readers import (
    FAILED_PAGES,
    FETCHERS,
    StopWhen,
    read_content,
    read_delay,
    read_failed_pages,
    read_fetch,
    read_headers,
    read_line,
    read_pattern,
    read_private,
    read_scrapy,
    read_skip,
    read_statuses,
    read_stop_when,
)
from shoal.scrape.settings.retry import NO_RETRY_SETTINGS, RetrySettings, read_retry
from shoal.scrape.settings.sessions import SessionSettings, read_browser, read_sessions
from shoal.scrape.settings.sites import (
    SiteTable,
    check_site_rates,
    has_credentials,
    has_site_secret,
    read_sites,
    with_absolute_proxies,
)
from shoal.scrape.settings.storage import (
    CacheSettings,
    DedupSettings,
    read_cache,
    read_dedup,
    read_files,
    read_playback,
    read_revisit,
    read_warc,
)
from shoal.scrape.settings.tokens import TokenSettings, has_tokens, read_tokens

PER_HOST = 4
PER_HOST_WITHOUT_GAP = 16
MAX_BODY = 32 << 20
# Extra time between the planned starts of a host, as a share of the gap: a request that starts a little late
# is then still far enough from the next one.
SLACK, MAX_SLACK = 0.02, timedelta(milliseconds=2)


def _read_sites(key: str, value: Any) -> SiteTable:
    return read_sites(key, value, SITE_READERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScraperSettings:
    """The validated settings of a scraper; create them with `ScraperSettings.read(...)`."""

    mode: Literal["single", "distributed"] = setting(
        "single",
        partial(read_choice, known=("single", "distributed")),
        'or `"distributed"`; set explicitly, `"single"` also prevents others from joining a run: '
        "[the command line](cli.md)",
    )
    mode_given: bool = field(default=False, compare=False)  # whether `mode` was set explicitly
    delay: timedelta = setting(
        SECOND,
        read_delay,
        "the same as a gap; set one of the two",
        live=True,
        web=True,
        shown=True,
        site=read_delay,
        also={
            "rate": Setting(
                read=read_rate,
                help='per host: `"5/s"`, `"30/min"`, `"600/h"`, a number per second; `None` for no gap',
                live=True,
                web=True,
                site=read_rate,
            )
        },
    )
    per_host: int | None = setting(
        None,
        optional(partial(read_whole, least=1)),
        "concurrent requests to one host; `16` without a gap",
        live=True,
        web=True,
        shown=True,
    )
    retries: int = setting(
        2,
        partial(read_whole, least=0, most=100),
        "after the first attempt: `retries=3` makes four attempts",
        live=True,
        web=True,
        shown=True,
    )
    retry: RetrySettings = setting(
        NO_RETRY_SETTINGS,
        read_retry,
        "waits between attempts, and rules by status and error class: "
        '`{"delay": "60s", "5xx": {"attempts": 5}}`; see '
        "[errors and retries](../explanation/errors-and-retries.md#your-own-retry-policy)",
        live=True,
        web=True,
    )
    timeout: timedelta = setting(
        MINUTE,
        read_positive_duration,
        "of one fetch, including redirects and body, without the wait for a turn of their host",
        web=True,
        shown=True,
        site=read_positive_duration,
    )
    lease: timedelta = setting(
        5 * MINUTE, read_positive_duration, "how long a step may take", web=True, shown=True
    )
    ttl: timedelta | None = setting(
        None,
        optional(read_positive_duration),
        "how long a task may wait",
        fixed="counts from the moment a task is queued, and the run has queued tasks",
        web=True,
        shown=True,
    )
    dedup: DedupSettings | None = setting(
        None,
        read_dedup,
        'how long other runs leave out what a run queues: `"30d"`, or `"30d steps=article"` for some '
        "steps; see "
        "[only what is new](../how-to/sources.md#only-what-is-new)",
        fixed="applies to a task when it is queued, and the run has queued tasks",
        web=True,
        option=SettingOption(
            SEEDS,
            "TIME",
            "Skip tasks that other runs of the scraper queued within this time: 30d, '30d steps=article', "
            "or off.",
        ),
    )
    robots: bool = setting(
        True,
        read_flag,
        "obey robots.txt; it is fetched once a day for the whole fleet",
        web=True,
        shown=True,
    )
    scope: Scope = setting(
        Scope.host(),
        Scope.read,
        "where links and redirects may lead, see below",
        live=True,
        web=True,
        several=True,
    )
    skip: Scope | None = setting(
        None,
        read_skip,
        "patterns, as in `scope`, of pages that are not fetched: [how to](../how-to/change.md#drop-tasks)",
        live=True,
        web=True,
        several=True,
    )
    missing: Literal["count", "dead"] = setting(
        "count",
        partial(read_choice, known=("count", "dead")),
        'followed links to missing pages (404, 410) are counted; `"dead"` makes them dead letters, as seeds '
        "always are",
        web=True,
    )
    max_depth: int = setting(
        20,
        partial(read_whole, least=0),
        "links from a seed to a page; [paging is not counted](#depth)",
        live=True,
        web=True,
        shown=True,
    )
    max_pages: int | None = setting(
        None,
        optional(partial(read_whole, least=1)),
        "pages and downloads of a run, completed or dead, after which it ends; exact for all workers "
        "together. If tasks are left, the run is `partial`, and continues when it is resumed with a "
        "larger number",
        live=True,
        web=True,
        shown=True,
    )
    stop_when: StopWhen | None = setting(
        StopWhen(),
        read_stop_when,
        "the run stops, as `partial`, when nearly all of the last 200 tasks of a step "
        "[became dead letters](../explanation/errors-and-retries.md#when-nearly-everything-fails); with "
        '`"200, empty"` also when so many tasks of a step that had items yield none; `off` never stops',
        live=True,
        web=True,
        shown=True,
    )
    expect: Expectations = setting(
        Expectations(),
        read_expect,
        'rules for the items of a run, such as `["items >= 1000", "price filled >= 95%"]`, and its '
        "comparison with earlier runs; `off` for neither: [data you can trust](../how-to/trust.md)",
        web=True,
    )
    max_per_pattern: int | None = setting(
        None,
        optional(partial(read_whole, least=1)),
        "links of one pattern that are followed, see below",
        web=True,
        shown=True,
    )
    fetch: str | None = setting(
        "http",
        read_fetch,
        '`"browser"`; `"auto"`: by HTTP, and with a browser where a page needs it; `None`: steps get tasks',
        web=True,
        shown=True,
        site=partial(read_choice, known=FETCHERS),
        option=SettingOption(
            FETCHING,
            "http|browser|auto|NAME",
            "Default fetcher for steps that don't set one: http, browser, auto (HTTP first, a browser if the "
            "page needs JavaScript), or the fetcher of a plugin.",
        ),
    )
    engine: Literal["wreq", "aiohttp"] = setting(
        "wreq",
        partial(read_choice, known=("wreq", "aiohttp")),
        'the HTTP client: `"wreq"`, or `"aiohttp"` (`pip install \'shoal[aiohttp]\'`): HTTP/1.1 only, '
        "without "
        "proxies, Tor and browser profiles",
        option=SettingOption(
            FETCHING,
            "wreq|aiohttp",
            "HTTP client: wreq (the default), or aiohttp, which needs the extra shoal[aiohttp].",
        ),
    )
    browser: BrowserSettings = setting(
        BrowserSettings(),
        read_browser,
        'what a browser waits for and leaves out: `{"wait": ".row", "context": "session"}`; see '
        "[how-to/browser.md](../how-to/browser.md)",
    )
    headers: Mapping[str, str] = setting(
        NOTHING,
        read_headers,
        "sent with every request; secret ones not over plain http after a link from https, which is "
        "followed by https or dropped",
        site=read_headers,
        is_secret=has_credentials,
    )
    user_agent: str | None = setting(None, optional(read_line), "the User-Agent; by default it names Shoal")
    delivery: Literal["at_least_once", "at_most_once"] = setting(
        "at_least_once",
        partial(read_choice, known=("at_least_once", "at_most_once")),
        '`"at_most_once"`: one attempt, whatever dies; a lost task is a dead letter. A step may differ: '
        '`@books.step(delivery="at_most_once")`',
        web=True,
        shown=True,
    )
    pause: tuple[timedelta, timedelta] | None = setting(
        None,
        optional(read_range),
        'a random pause between two tasks of a worker, which has one at a time then: `"8-20s"`',
        live=True,
        web=True,
    )
    statuses: frozenset[int] = setting(
        frozenset(),
        read_statuses,
        "error statuses that are passed to the step: `{404}`; `--set statuses=404,410`",
        live=True,
        web=True,
    )
    block: re.Pattern[str] | None = setting(
        None,
        optional(read_pattern),
        "a regular expression that marks a block page, whatever its status",
    )
    content: tuple[str, ...] = setting(
        (),
        read_content,
        "types of responses that steps get besides HTML, XML, JSON and text: "
        '`"application/pdf image/*"`, or `"any"`. Others are [counted](#where-links-may-lead)',
        live=True,
        web=True,
        several=True,
    )
    max_body: int = setting(
        MAX_BODY, read_size, "maximum body size, after decompression", web=True, shown=True
    )
    allow_private: tuple[str, ...] = setting(
        (),
        read_private,
        'hosts or networks whose private addresses may be fetched: `"localhost:8000"`, `"10.0.0.0/8"`',
        live=True,
    )
    cache: CacheSettings | None = setting(
        None,
        read_cache,
        'cache responses: `"60s"`, `True` for 60 s, `"10m disk:pages 2GB"`; see '
        "[how-to/cache.md](../how-to/cache.md)",
        absolute=absolute_words,
        option=SettingOption(RECORDING, "TIME", "Cache pages for this long: 60s, '10m disk:FOLDER', or off."),
    )
    proxies: ProxyRules | None = setting(
        None,
        read_proxies,
        'fetch through proxies: `"proxies.txt"`, a list, a function, or `"proxies.txt '
        'strategy=fastest"`; see '
        "[how-to/proxies.md](../how-to/proxies.md)",
        hidden=True,
        site=read_site_proxies,
        is_secret=has_password,
        absolute=absolute_words,
        option=SettingOption(
            FETCHING,
            "FILE",
            "Fetch through the proxies in this file: proxies.txt, 'proxies.txt strategy=fastest', or off.",
            "SHOAL_PROXIES",
        ),
    )
    tor: TorSettings | None = setting(
        None,
        read_tor,
        'fetch through Tor, one Tor process per worker: `True`, `"renew=50"`; see '
        "[how-to/tor.md](../how-to/tor.md)",
        absolute=absolute_words,
        option=SettingOption(
            FETCHING,
            "on|off|RULES",
            "Fetch through Tor; each worker starts its own Tor process: on, off, or renew=50 for a new "
            "circuit "
            "every 50 requests.",
            "SHOAL_TOR",
        ),
    )
    tokens: TokenSettings | None = setting(
        None,
        read_tokens,
        'API tokens and the hosts they may be sent to: `"env:API_TOKENS hosts=api.example.com"`; see '
        "[how-to/tokens.md](../how-to/tokens.md)",
        hidden=True,
        is_secret=has_tokens,
        absolute=absolute_words,
        option=SettingOption(
            FETCHING,
            "SOURCE",
            "API tokens and the hosts they may be sent to: 'env:NAME hosts=api.example.com' or 'FILE "
            "hosts=…'.",
        ),
    )
    sessions: SessionSettings | None = setting(
        None,
        read_sessions,
        'use several sessions, each with its own cookies: `10`, `"10 max_uses=500 profile=chrome"`; see '
        "[how-to/sessions.md](../how-to/sessions.md)",
    )
    warc: Path | None = setting(
        None,
        optional(read_warc),
        'record all requests and responses in this file: `"crawl.warc.gz"`; see '
        "[how-to/offline.md](../how-to/offline.md)",
        absolute=absolute_path,
        option=SettingOption(RECORDING, "FILE", "Record every request and response: crawl.warc.gz."),
    )
    playback: Path | None = setting(
        None,
        optional(read_playback),
        "play back a recording; make no network requests",
        fixed="is the recording that the run was made from",
        absolute=absolute_path,
        option=SettingOption(
            RECORDING, "FILE|FOLDER", "Play back a WARC recording; make no network requests."
        ),
    )
    recrawl: bool = setting(
        False,
        read_flag,
        "record every page, so that a later run can report what has changed; see "
        "[how-to/recrawl.md](../how-to/recrawl.md)",
        fixed="decides what is recorded of each page from the first one on",
    )
    again: str | None = setting(
        None,
        optional(read_line),
        "the run whose pages are fetched again; `auto` is the newest, or none if there is no run yet",
        fixed="says which pages the run began with",
        option=SettingOption(
            RECORDING, "RUN|newest|auto", "Fetch the pages of this run again and report what changed."
        ),
    )
    revisit: RevisitBounds | None = setting(
        None,
        read_revisit,
        'with `recrawl`, how often a page is fetched again: `"1d..30d"`, the more often the more it changes; '
        "see [how-to/recrawl.md](../how-to/recrawl.md#fetch-each-page-as-often-as-it-changes)",
        fixed="decides which pages the run fetches from the first one on",
        web=True,
    )
    revisit_pages: int | None = setting(
        None,
        optional(partial(read_whole, least=1)),
        "at most this many pages of earlier runs are fetched again because they are due, first those that "
        "have most probably changed",
        fixed="decides which pages the run fetches from the first one on",
        web=True,
        shown=True,
    )
    failed_pages: timedelta | None = setting(
        FAILED_PAGES,
        read_failed_pages,
        'how long the pages of dead letters are kept in the queue, or `"off"`; see '
        "[how-to/debug.md](../how-to/debug.md#the-page-that-failed)",
    )
    files: str | None = setting(
        None,
        optional(read_files),
        "where [downloads](../how-to/files.md) are stored: a folder, by default `files`, or "
        "`s3://BUCKET/PATH`",
        absolute=absolute_path,
        option=SettingOption(
            RECORDING,
            "FOLDER|URL",
            "Where downloaded files are stored: a folder, or s3://BUCKET/PATH. [default: files]",
        ),
    )
    sites: SiteTable = setting(
        SiteTable(),
        _read_sites,
        'settings of some hosts: `{"*.example.com": {"rate": "6/min", "fetch": "browser"}}`; see '
        "[below](#settings-of-some-hosts)",
        is_secret=has_site_secret,
        absolute=with_absolute_proxies,
    )
    scrapy: Mapping[str, Any] = setting(
        NOTHING,
        read_scrapy,
        "settings of a Scrapy project, as `-s DOWNLOAD_DELAY=1` gives them: "
        "[how to](../how-to/scrapy-projects.md)",
    )
    keep: timedelta | None = setting(
        None,
        optional(read_positive_duration),
        'how long finished runs are kept, such as `"30d"`; older ones are deleted when a run ends: '
        "[how to](../how-to/retention.md)",
    )

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
            found = find_setting(key)
            changes[found.field] = found.read(key, value)
        if "mode" in changes:
            changes["mode_given"] = True
        changed = replace(self, **changes)
        if changed.playback:
            # A playback sends no requests: no host needs a gap, and a retry returns the same recording.
            changed = replace(changed, delay=ZERO, pause=None, retries=0, cache=None, warc=None)
            changed = replace(changed, recrawl=False, revisit=None, again=None, tor=None, proxies=None)
            changed = replace(changed, retry=NO_RETRY_SETTINGS, dedup=None, stop_when=None)
        if changed.tor and (changed.proxies or changed.sites.proxies):
            raise InvalidSetting("tor", "and proxies cannot be combined; turn one off, such as proxies=off")
        _check_engine(changed)
        if "sites" in changes:
            check_site_rates(changed.sites, changed.delay)
        if changed.warc and changes.get("cache"):
            raise InvalidSetting("warc", "and cache cannot be combined: a cached page would not be recorded")
        if changed.warc:
            changed = replace(changed, cache=None)
        if changed.dedup and (changed.again or changed.recrawl):
            raise InvalidSetting(
                "dedup",
                "skips what earlier runs have queued, and again fetches it; leave one of them out",
            )
        if changed.revisit and not changed.recrawl:
            raise InvalidSetting("revisit", "needs recrawl=True, by which it knows the pages")
        if not changed.revisit:
            changed = replace(changed, revisit_pages=None)
        if changes.get("revisit_pages") and not changed.revisit:
            raise InvalidSetting("revisit_pages", "needs revisit, such as revisit='1d..30d'")
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

    def headers_for(self, url: str) -> Mapping[str, str]:
        """Return the headers of the scraper and of the URL's site."""
        own = self.sites.find(url).headers
        return {**self.headers, **own} if own else self.headers

    @property
    def requests_per_host(self) -> int:
        """The concurrent requests to one host: `per_host`, or the default that depends on the gap."""
        return self.per_host or (PER_HOST if self.delay else PER_HOST_WITHOUT_GAP)

    @property
    def begins_with(self) -> str | None:
        """The run with whose pages a run begins: `again`, and with `revisit` the newest, if there is one."""
        return self.again or ("auto" if self.revisit else None)

    @property
    def at_most_once(self) -> bool:
        """Whether a task is claimed at most once, whatever its outcome."""
        return self.delivery == "at_most_once"


SETTINGS = declared(ScraperSettings)
SITE_READERS = {name: found.site for name, found in SETTINGS.items() if found.site}


def find_setting(key: str) -> Setting:
    """Return a setting by its name; raises InvalidSetting with the nearest name."""
    if key in SETTINGS:
        return SETTINGS[key]
    if instead := setting_instead_of(key):
        raise InvalidSetting(key, f"is a word of Scrapy. Write {instead}")
    close = get_close_matches(key, SETTINGS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(sorted(SETTINGS))}."
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


def same_names(key: str) -> tuple[str, ...]:
    """Return all names of a setting, such as `rate` and `delay`."""
    return tuple(name for name, found in SETTINGS.items() if found.field == SETTINGS[key].field)
