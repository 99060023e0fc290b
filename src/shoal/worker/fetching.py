"""How the pages of one worker come home: from a record, from the cache, or from their hosts."""

from collections.abc import Collection

from shoal.core.model import MINUTE, Run
from shoal.export.warc import WarcWriter
from shoal.export.warc_read import WarcRecord
from shoal.fetch.cache import CachingFetcher
from shoal.fetch.cache_notes import NotesStore
from shoal.fetch.cache_store import CacheStore, DiskStore
from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.limits import Limits
from shoal.fetch.recording import RecordingFetcher
from shoal.fetch.replay import ReplayFetcher
from shoal.fetch.robots import Robots
from shoal.queue.contract import Queue
from shoal.scrape.keeping import CacheSettings
from shoal.scrape.login import Login
from shoal.scrape.settings import ScraperSettings
from shoal.worker.proxying import by_proxies
from shoal.worker.rendering import by_name, with_browser
from shoal.worker.revisits import Revisits
from shoal.worker.tor import by_tor, tor_door
from shoal.worker.visiting import as_visitors, realm_of, with_tokens

MOST_RULES = 64 << 20  # bytes of robots.txt that the fleet keeps
TOR_PATIENCE = 2 * MINUTE  # of one who has no queue


async def open_fetchers(
    settings: ScraperSettings,
    queue: Queue,
    *,
    user_agent: str,
    run_id: str,
    login: Login | None = None,
    wanted: Collection[str | None] = ("http",),
    once: bool = False,
) -> dict[str, Fetcher]:
    """Return the fetchers that a scraper's steps may ask for, by name; a replay has no way to the network.

    `wanted` are the names that they do ask for. With `once` some tasks are handed out once at most.
    """
    limits = Limits(max_body=settings.max_body)
    if settings.replay:
        record = WarcRecord(settings.replay, most=settings.max_body)
        replayed = ReplayFetcher(record.find, record=record.name, limits=limits)
        return dict.fromkeys(("http", "browser", "auto"), replayed)
    fetcher = _direct(settings, limits, wanted, user_agent, once=once)
    fetcher = await by_tor(settings, queue, fetcher, run_id=run_id)
    fetcher = await by_proxies(settings, queue, fetcher, run_id=run_id)
    fetcher = as_visitors(settings, queue, fetcher, login)
    fetcher = await with_tokens(settings, queue, fetcher, run_id=run_id)
    if settings.warc:
        writer = WarcWriter.open(settings.warc, user_agent=user_agent, run_id=run_id)
        fetcher = RecordingFetcher(fetcher, writer)
    either = fetcher
    if settings.cache:
        fetcher = CachingFetcher(
            fetcher,
            _store(settings.cache, queue),
            user_agent=user_agent,
            lifetime=settings.cache.lifetime,
            limits=limits,
            block=settings.block,
            realm=realm_of(settings, run_id),
        )
    return by_name(settings, queue, fetcher, either, wanted)


async def open_fetcher(
    settings: ScraperSettings, *, user_agent: str, limits: Limits | None = None, fetch: str = "http"
) -> Fetcher:
    """Return a fetcher by the ways of a run, for one who has no queue: it waits where a task would go back.

    Raises TorDown when Tor does not come up.
    """
    fetcher = _direct(settings, limits or Limits(max_body=settings.max_body), {fetch}, user_agent)
    if settings.tor or settings.proxies:
        from shoal.fetch.proxies.patient import PatientFetcher  # others begin sooner without

        fetcher = await by_tor(settings, None, fetcher, wait=TOR_PATIENCE)
        fetcher = PatientFetcher(await by_proxies(settings, None, fetcher))
    return fetcher


def _direct(
    settings: ScraperSettings,
    limits: Limits,
    wanted: Collection[str | None],
    user_agent: str,
    *,
    once: bool = False,
) -> Fetcher:
    """Return what opens connections: by HTTP, and with a browser where that is wanted."""
    egress = tor_door(settings) or Egress(settings.allow_private)
    fetcher = HttpFetcher(limits, egress=egress, user_agent=user_agent)
    return with_browser(settings, fetcher, wanted, egress=egress, agent=user_agent, once=once)


def open_robots(
    settings: ScraperSettings, queue: Queue, fetcher: Fetcher, *, user_agent: str
) -> Robots | None:
    """Return who knows what robots.txt says, and shares it unless this is a replay; None if nobody asks."""
    if not settings.robots:
        return None
    store = None if settings.replay else NotesStore(queue, most=MOST_RULES, topic="robots")
    return Robots(fetcher, user_agent, store=store)


def open_revisits(settings: ScraperSettings, queue: Queue, run: Run) -> Revisits | None:
    """Return the memory of pages that a scraper's settings ask for."""
    if not (settings.recrawl or settings.again):
        return None
    return Revisits(queue, run.scraper, run.id, again=settings.again is not None)


def _store(cache: CacheSettings, queue: Queue) -> CacheStore:
    if cache.folder is None:
        return NotesStore(queue, most=cache.size)
    return DiskStore(cache.folder, most=cache.size)
