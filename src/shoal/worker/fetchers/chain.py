"""The fetchers of one worker: from a recording, from the cache, or from the hosts."""

import asyncio
from collections.abc import Collection, Iterable

from shoal.core.model import MINUTE, Run
from shoal.export.archive.warc import WarcWriter
from shoal.export.archive.warc_read import WarcArchive
from shoal.fetch.archive.playback import PlaybackFetcher
from shoal.fetch.archive.recording import RecordingFetcher
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.store import CacheStore, DiskStore
from shoal.fetch.contract import Fetcher, FetcherOptions, Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.proxies.fetcher import RetryingFetcher
from shoal.fetch.robots.robots import Robots
from shoal.queue.contract import Queue
from shoal.scrape.login import Login
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.storage import CacheSettings
from shoal.worker.failures.pages import FailedPageStore
from shoal.worker.fetchers.credentials import realm_of, with_sessions, with_tokens
from shoal.worker.fetchers.named import name_fetchers, plugin_fetchers, with_named
from shoal.worker.fetchers.proxies import with_proxies
from shoal.worker.fetchers.tor import tor_egress, with_tor
from shoal.worker.files.downloads import Downloads
from shoal.worker.files.known import KnownFiles
from shoal.worker.files.open import open_files
from shoal.worker.recrawl.store import VisitStore

MAX_ROBOTS_BYTES = 64 << 20  # of robots.txt files in the shared cache
TOR_TIMEOUT = 2 * MINUTE  # for a fetcher without a queue


async def open_fetchers(
    settings: ScraperSettings,
    queue: Queue,
    *,
    user_agent: str,
    run_id: str,
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
    fetcher = await with_proxies(settings, queue, fetcher, run_id=run_id)
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
    """Return the exit to the network for these settings."""
    return tor_egress(settings) or Egress(settings.allow_private)


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
    return with_named(options, wanted)


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
    downloads = Downloads(store, KnownFiles(queue, store.place), run.id)
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
