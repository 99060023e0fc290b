"""Opens the fetchers of a worker by the settings of its scraper, in the order in which requests pass them."""

import asyncio
import os
import secrets
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import partial

from shoal.core.errors import ShoalError
from shoal.core.failures import error_with_place
from shoal.core.http import Response
from shoal.core.model import MINUTE, ZERO, Run, Task
from shoal.core.proxies import ProxyRules
from shoal.export.archive.warc import WarcWriter
from shoal.export.archive.warc_read import WarcArchive
from shoal.fetch.archive import PlaybackFetcher, RecordingFetcher
from shoal.fetch.browser.auto import AutoFetcher, RenderHints, RenderingFetcher
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.store import CacheStore, DiskStore
from shoal.fetch.contract import Fetcher, FetcherOptions, Limits, OpenFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.named import BROWSER, ChoosingFetcher, GuardedFetcher, NamingFetcher, SentFetcher
from shoal.fetch.proxies.fetcher import ProxiesFetcher, RetryingFetcher, SiteProxiesFetcher
from shoal.fetch.proxies.pool import CountProxy, ProxyPool
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.robots.robots import Robots
from shoal.fetch.shared_state import secret_of
from shoal.fetch.tor.fetcher import TorEgress, TorFetcher
from shoal.fetch.tor.sync import TorSync
from shoal.fetch.tor.tor import Tor
from shoal.queue.contract import Queue
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call, is_async
from shoal.scrape.login import Login
from shoal.scrape.page import Page, needs_javascript
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.storage import CacheSettings
from shoal.worker.failures.pages import FailedPageStore
from shoal.worker.fetchers.credentials import realm_of, with_sessions, with_tokens
from shoal.worker.files.downloads import Downloads, KnownFiles
from shoal.worker.files.store import open_files
from shoal.worker.recrawl import VisitStore


def _read_opener(value: object) -> OpenFetcher:
    wanted = "it must be a function or class that takes FetcherOptions and returns a Fetcher"
    check_call(value, 1, wanted)
    if isinstance(value, type):
        for name in ("fetch", "close"):
            if not is_async(getattr(value, name, None)):
                raise TypeError(f"{wanted}, and has no async method {name}")
    opener: OpenFetcher = value  # type: ignore[assignment]
    return opener


def _reuse_http(options: FetcherOptions) -> Fetcher:
    return options.http


# What each one opens below the proxies, sessions and tokens of a run; "auto" uses HTTP and the browser.
FETCHERS: Registry[OpenFetcher] = Registry(
    "shoal.fetchers",
    "fetcher",
    {"http": lambda: _reuse_http, BROWSER: lambda: open_browser, "auto": lambda: open_browser},
    _read_opener,
)


def plugin_fetchers(wanted: Collection[str | None]) -> list[str]:
    """Return the names among those of a scraper's steps that are not built in."""
    return sorted({name for name in wanted if name and name not in FETCHERS.builtin})


def check_fetchers(wanted: Collection[str | None]) -> None:
    """Import the fetchers of plugins; raises PluginFailed."""
    for name in plugin_fetchers(wanted):
        FETCHERS.find(name)


def with_named(options: FetcherOptions, wanted: Collection[str | None]) -> Fetcher:
    """Return a fetcher that uses the one that a request names; raises PluginFailed, BrowserMissing."""
    others: dict[str, Fetcher] = {}
    if RENDERED & set(wanted):
        others[BROWSER] = open_browser(options)
    for name in plugin_fetchers(wanted):
        if opener := FETCHERS.find(name):
            fetcher = _open_plugin(name, opener, options)
            others[name] = GuardedFetcher(name, fetcher, limits=options.limits, egress=options.egress)
    return ChoosingFetcher(options.http, others) if others else options.http


def _open_plugin(name: str, opener: OpenFetcher, options: FetcherOptions) -> Fetcher:
    try:
        fetcher = opener(options)
        for method in ("fetch", "close"):
            if not callable(getattr(fetcher, method, None)):
                raise TypeError(f"it returned a {type(fetcher).__name__}, which has no method {method}")
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:
        raise FETCHERS.failure(name, error_with_place(error)) from error
    return fetcher


def name_fetchers(
    settings: ScraperSettings, queue: Queue, http: Fetcher, uncached: Fetcher, wanted: Collection[str | None]
) -> dict[str, Fetcher]:
    """Return the fetchers by the names that steps use: `http` may have a cache, the others have none."""
    named: dict[str, Fetcher] = {"http": http}
    if RENDERED & set(wanted):
        named["browser"] = rendering = RenderingFetcher(uncached)
        needs_browser = partial(_needs_browser, settings.browser.selector)
        named["auto"] = AutoFetcher(http, rendering, RenderHints(queue), needs_browser, gap=settings.delay)
    return named | {name: NamingFetcher(uncached, name) for name in plugin_fetchers(wanted)}


SALT = "proxies"  # the key of the secret that salts the names of proxies with credentials


async def with_proxies(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    worker_id: str = "",
    count: CountProxy | None = None,
) -> Fetcher:
    """Return the fetcher with the proxies of the settings; without a queue their state is not shared."""
    me = worker_id or secrets.token_hex(8)
    usual = fetcher
    if settings.proxies:
        usual = await _open_proxies(settings.proxies, settings, queue, fetcher, run_id, me, count=count)
    if not settings.sites.have_proxies:
        return usual

    by_rules = [
        (rules, await _open_proxies(rules, settings, queue, fetcher, run_id, me, group=pattern, count=count))
        for pattern, rules in settings.sites.proxies.items()
    ]
    return SiteProxiesFetcher(fetcher, usual, by_rules, lambda url: settings.sites.find(url).proxies)


async def _open_proxies(
    rules: ProxyRules,
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    run_id: str,
    me: str,
    *,
    group: str = "",
    count: CountProxy | None = None,
) -> Fetcher:
    source = ProxySource(rules, salt=await secret_of(queue, SALT) if queue else secrets.token_bytes(32))
    gap = settings.delay.total_seconds() if rules.per_exit else 0.0
    pool = ProxyPool(rules, await source.read(), gap=gap, count=count)
    sync = ProxySync(queue, run_id, f"{me} {group}".strip(), pool, group=group) if queue else None
    proxied = ProxiesFetcher(
        fetcher, pool, source=source, sync=sync, statuses=settings.statuses, block=settings.block
    )
    await proxied.start()
    return proxied


async def with_tor(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    wait: timedelta = ZERO,
) -> Fetcher:
    """Return the fetcher with its own Tor process, if the settings ask for one; `wait` until it is up.

    Without a queue its state is not shared. Raises InvalidSetting, and TorDown if it is not up in time.
    """
    if settings.tor is None:
        return fetcher
    tor = await Tor.open(settings.tor.torrc)
    try:
        if wait:
            await tor.wait_until_up(wait)
    except BaseException:
        await tor.close()
        raise
    proxied = TorFetcher(
        fetcher,
        tor,
        renew=settings.tor.renew,
        statuses=settings.statuses,
        block=settings.block,
    )
    if queue:
        proxied.start_sync(TorSync(queue, run_id))
    return proxied


RENDERED = frozenset({"browser", "auto"})


def sandbox_notice(wanted: Collection[str | None]) -> str | None:
    """Return the warning for the operator if the browser will run without its sandbox."""
    if os.geteuid() != 0 or not RENDERED & set(wanted):
        return None
    return (
        "Chromium runs without its sandbox because this is root: a page that exploits the browser controls "
        "the whole machine. Run workers as a dedicated user."
    )


def open_browser(options: FetcherOptions) -> Fetcher:
    """Return the fetcher that renders pages; raises BrowserMissing.

    Where some tasks are attempted once at most, no page is fetched again when a browser crashes.
    """
    settings = options.settings
    return BrowserFetcher(
        settings.browser,
        Limits(max_body=settings.max_body),
        egress=options.egress,
        agent=options.user_agent,
        user_agent=settings.user_agent,
        may_return=not (options.once or settings.at_most_once),
    )


def _needs_browser(selector: str | None, response: Response) -> bool:
    return needs_javascript(Page(response, Task(url=response.url)), selector)


MAX_ROBOTS_BYTES = 64 << 20  # of robots.txt files in the shared cache
TOR_TIMEOUT = 2 * MINUTE  # for a fetcher without a queue


async def open_fetchers(
    settings: ScraperSettings,
    queue: Queue,
    *,
    user_agent: str,
    run_id: str,
    worker_id: str = "",
    count_proxy: CountProxy | None = None,
    login: Login | None = None,
    wanted: Collection[str | None] = ("http",),
    once: bool = False,
    egress: Egress | None = None,
) -> dict[str, Fetcher]:
    """Return the fetchers of a scraper's steps by name; a playback has no network access.

    `wanted` are the names that its steps use. With `once` some tasks are attempted once at most. `egress` is
    the one of `open_egress` by default.
    """
    limits = Limits(max_body=settings.max_body)
    if settings.playback:
        record = WarcArchive(settings.playback, max_body=settings.max_body)
        played = PlaybackFetcher(record.find, record=record.name, limits=limits)
        return dict.fromkeys(("http", "browser", "auto", *plugin_fetchers(wanted)), played)
    fetcher = _open_direct(settings, limits, wanted, user_agent, once=once, egress=egress)
    fetcher = await with_tor(settings, queue, fetcher, run_id=run_id)
    fetcher = await with_proxies(
        settings, queue, fetcher, run_id=run_id, worker_id=worker_id, count=count_proxy
    )
    fetcher = with_sessions(settings, queue, fetcher, login)
    fetcher = await with_tokens(settings, queue, fetcher, run_id=run_id)
    if settings.warc:
        writer = WarcWriter.open(settings.warc, user_agent=user_agent, run_id=run_id)
        fetcher = RecordingFetcher(fetcher, writer)
    uncached = fetcher
    if settings.cache:
        fetcher = CachingFetcher(
            fetcher,
            _open_cache_store(settings.cache, queue),
            user_agent=user_agent,
            lifetime=settings.cache.lifetime,
            limits=limits,
            block=settings.block,
            realm=realm_of(settings, run_id),
        )
    return name_fetchers(settings, queue, fetcher, uncached, wanted)


def open_egress(settings: ScraperSettings) -> Egress:
    """Return the exit to the network for these settings; that of Tor opens no direct connection."""
    return TorEgress(settings.allow_private) if settings.tor else Egress(settings.allow_private)


async def open_fetcher(
    settings: ScraperSettings, *, user_agent: str, limits: Limits | None = None, fetch: str = "http"
) -> Fetcher:
    """Return a fetcher with the proxies of a run, without a queue: it waits where a task would be released.

    Raises TorDown when Tor does not come up.
    """
    fetcher = _open_direct(settings, limits or Limits(max_body=settings.max_body), {fetch}, user_agent)
    if settings.tor or settings.proxies or settings.sites.proxies:
        fetcher = await with_tor(settings, None, fetcher, wait=TOR_TIMEOUT)
        fetcher = RetryingFetcher(await with_proxies(settings, None, fetcher))
    return fetcher


def _open_direct(
    settings: ScraperSettings,
    limits: Limits,
    wanted: Collection[str | None],
    user_agent: str,
    *,
    once: bool = False,
    egress: Egress | None = None,
) -> Fetcher:
    """Return the fetcher that opens connections: with HTTP, and with what else is wanted."""
    egress = egress or open_egress(settings)
    options = FetcherOptions(
        http=open_engine(settings.engine, limits, egress=egress, user_agent=user_agent),
        egress=egress,
        limits=limits,
        user_agent=user_agent,
        settings=settings,
        once=once,
    )
    fetcher = with_named(options, wanted)
    return SentFetcher(fetcher) if once else fetcher


def open_robots(
    settings: ScraperSettings, queue: Queue, fetcher: Fetcher, *, user_agent: str
) -> Robots | None:
    """Return the robots.txt rules, shared between workers except in a playback; None if robots is off."""
    if not settings.robots:
        return None
    store = None if settings.playback else QueueCacheStore(queue, max_bytes=MAX_ROBOTS_BYTES, topic="robots")
    return Robots(fetcher, user_agent, store=store)


def open_revisits(settings: ScraperSettings, queue: Queue, run: Run) -> "VisitStore | None":
    """Return the store of page visits, if the settings ask for recrawls."""
    if not (settings.recrawl or settings.again):
        return None
    return VisitStore(queue, run.scraper, run.id, again=settings.again is not None)


def open_failed_pages(
    settings: ScraperSettings, queue: Queue, run: Run, secrets: Iterable[str]
) -> FailedPageStore | None:
    """Return the store of the pages of dead letters; None if none are kept."""
    if settings.failed_pages is None:
        return None
    return FailedPageStore(queue, run.id, settings.failed_pages, secrets)


async def open_downloads(scraper: Scraper, queue: Queue, run: Run) -> Downloads:
    """Return what stores the files of a run; removes what killed workers have left in its folder.

    Raises StorageFailed if files will be stored, as far as that is known, and their place cannot be used.
    """
    settings = scraper.settings
    store = open_files(settings.files)
    known = KnownFiles(queue, store.place, realm_of(settings, run.id))
    downloads = Downloads(store, known, run.id)
    # A scraper without downloads may run where nothing can be written.
    is_used = settings.files or any(step.may_download for step in scraper.steps.values())
    if is_used and not settings.playback:
        await downloads.check_place()
    await asyncio.to_thread(store.remove_leftovers)
    return downloads


def _open_cache_store(cache: CacheSettings, queue: Queue) -> CacheStore:
    if cache.folder is None:
        return QueueCacheStore(queue, max_bytes=cache.size)
    return DiskStore(cache.folder, max_bytes=cache.size)
