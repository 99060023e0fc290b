"""Opens the fetchers of a worker by the settings of its scraper, in the order in which requests pass them."""

import asyncio
import os
from collections.abc import Collection, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.errors import ShoalError
from shoal.core.failures import error_with_place
from shoal.core.model import MINUTE, Run
from shoal.core.secrets import secret_headers
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.store import CacheStore, DiskStore
from shoal.fetch.contract import Fetcher, FetcherOptions, Limits, OpenFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.named import BROWSER, ChoosingFetcher, GuardedFetcher, NamingFetcher, SentFetcher
from shoal.fetch.robots.robots import Robots
from shoal.queue.contract import Queue
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call, is_async
from shoal.scrape.login import Login
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.storage import CacheSettings
from shoal.worker.failures.pages import FailedPageStore
from shoal.worker.files.downloads import Downloads, KnownFiles
from shoal.worker.files.store import open_files
from shoal.worker.recrawl import VisitStore
from shoal.worker.revisits import RevisitChooser

if TYPE_CHECKING:
    from shoal.fetch.proxies.pool import CountProxy


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


def _load_browser() -> OpenFetcher:
    from shoal.worker.fetchers.rendering import open_browser

    return open_browser


# What each one opens below the proxies, sessions and tokens of a run; "auto" uses HTTP and the browser.
FETCHERS: Registry[OpenFetcher] = Registry(
    "shoal.fetchers",
    "fetcher",
    {"http": lambda: _reuse_http, BROWSER: _load_browser, "auto": _load_browser},
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
        others[BROWSER] = _load_browser()(options)
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
        from shoal.worker.fetchers.rendering import name_rendering

        named |= name_rendering(settings, queue, http, uncached)
    return named | {name: NamingFetcher(uncached, name) for name in plugin_fetchers(wanted)}


RENDERED = frozenset({"browser", "auto"})


def sandbox_notice(wanted: Collection[str | None]) -> str | None:
    """Return the warning for the operator if the browser will run without its sandbox."""
    if os.geteuid() != 0 or not RENDERED & set(wanted):
        return None
    return (
        "Chromium runs without its sandbox because this is root: a page that exploits the browser controls "
        "the whole machine. Run workers as a dedicated user."
    )


MAX_ROBOTS_BYTES = 64 << 20  # of robots.txt files in the shared cache
TOR_TIMEOUT = 2 * MINUTE  # for a fetcher without a queue


async def open_fetchers(
    settings: ScraperSettings,
    queue: Queue,
    *,
    user_agent: str,
    run_id: str,
    worker_id: str = "",
    count_proxy: "CountProxy | None" = None,
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
        from shoal.export.archive.warc_read import WarcArchive
        from shoal.fetch.archive import PlaybackFetcher

        record = WarcArchive(settings.playback, max_body=settings.max_body)
        played = PlaybackFetcher(record.find, record=record.name, limits=limits)
        return dict.fromkeys(("http", "browser", "auto", *plugin_fetchers(wanted)), played)
    fetcher = _open_direct(settings, limits, wanted, user_agent, once=once, egress=egress)
    if settings.tor or settings.proxies or settings.sites.have_proxies:
        from shoal.worker.fetchers.proxies import with_proxies, with_tor

        fetcher = await with_tor(settings, queue, fetcher, run_id=run_id, worker_id=worker_id)
        fetcher = await with_proxies(
            settings, queue, fetcher, run_id=run_id, worker_id=worker_id, count=count_proxy
        )
    if settings.sessions or settings.tokens:
        from shoal.worker.fetchers.credentials import with_sessions, with_tokens

        fetcher = with_sessions(settings, queue, fetcher, login)
        fetcher = await with_tokens(settings, queue, fetcher, run_id=run_id)
    if settings.warc:
        from shoal.export.archive.warc import WarcWriter
        from shoal.fetch.archive import RecordingFetcher

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
    if settings.tor:
        from shoal.fetch.tor.fetcher import TorEgress

        return TorEgress(settings.allow_private)
    return Egress(settings.allow_private)


async def open_fetcher(
    settings: ScraperSettings, *, user_agent: str, limits: Limits | None = None, fetch: str = "http"
) -> Fetcher:
    """Return a fetcher with the proxies of a run, without a queue: it waits where a task would be released.

    Raises TorDown when Tor does not come up.
    """
    fetcher = _open_direct(settings, limits or Limits(max_body=settings.max_body), {fetch}, user_agent)
    if settings.tor or settings.proxies or settings.sites.proxies:
        from shoal.fetch.proxies.fetcher import RetryingFetcher
        from shoal.worker.fetchers.proxies import with_proxies, with_tor

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
    chooser = RevisitChooser(queue, run.id, settings.revisit) if settings.revisit else None
    again = settings.again is not None or chooser is not None
    return VisitStore(queue, run.scraper, run.id, again=again, chooser=chooser)


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


def realm_of(settings: ScraperSettings, run_id: str) -> str:
    """Return the realm: runs share pages and files if they access the same hosts with equal credentials."""
    parts = sorted(settings.allow_private)
    if own := sorted(secret_headers(settings.headers).items()):
        parts.append("headers " + blake2b(repr(own).encode(), digest_size=16).hexdigest())
    if by_site := [(name, sorted(site.headers.items())) for name, site in settings.sites.rules.items()]:
        parts.append("sites " + blake2b(repr(by_site).encode(), digest_size=16).hexdigest())
    if settings.tokens:
        tokens = settings.tokens
        given = tokens.given or os.environ.get(tokens.variable or "", "")
        in_file = _digest(tokens.file) if tokens.file else ""
        # The tokens of a function are not known before it is called, and may be another account's next time.
        dynamic = run_id if tokens.provider else ""
        shown = repr(
            (sorted(tokens.origins), given, str(tokens.file), in_file, dynamic, tokens.header, tokens.query)
        )
        parts.append("tokens " + blake2b(shown.encode(), digest_size=16).hexdigest())
    if settings.sessions:
        parts.append(f"sessions of {run_id}")
    return " ".join(parts)


def _digest(file: Path) -> str:
    """Return the digest of a file; empty if it cannot be read."""
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
