"""The kinds of sources that are opened by an address: sitemaps, feeds, and those of installed packages."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from shoal.core.http import Request, Response
from shoal.core.model import Task
from shoal.core.secrets import secret_headers
from shoal.discover.sitemaps.walk import SitemapLimits, Sitemaps
from shoal.discover.source import OpenSource, Source, SourceOptions
from shoal.discover.webfeeds import WebFeeds
from shoal.fetch.contract import Fetcher, Limits
from shoal.fleet.sources.feed_cache import FeedCache
from shoal.fleet.sources.scraper_seeds import iterate_source
from shoal.fleet.sources.seeds import GivenTasks, Seeds
from shoal.queue.contract import SharedNotes
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.worker.fetchers.chain import open_fetcher
from shoal.worker.process.main import USER_AGENT

SITEMAP, FEED = "sitemap", "feed"


def _open_sitemaps(addresses: Sequence[str], options: SourceOptions) -> Source:
    return Sitemaps(
        options.fetch,
        *addresses,
        step=options.step,
        since=options.since,
        hosts=options.hosts,
        delay=options.delay,
        rewrite=options.rewrite,
    )


def _open_feeds(addresses: Sequence[str], options: SourceOptions) -> Source:
    return WebFeeds(addresses, options, lambda response: Page(response, Task(url=response.url)).feed())


def _read_opener(value: object) -> OpenSource:
    check_call(value, 2, "it must be a function that takes addresses and SourceOptions, and yields tasks")
    opener: OpenSource = value  # type: ignore[assignment]
    return opener


SOURCES: Registry[OpenSource] = Registry(
    "shoal.sources", "source", {SITEMAP: lambda: _open_sitemaps, FEED: lambda: _open_feeds}, _read_opener
)


@asynccontextmanager
async def open_sources(
    seeds: Seeds, scraper: Scraper, step: str, notes: SharedNotes | None = None
) -> AsyncIterator[list[Source]]:
    """Yield the sources of a run that are opened by an address; their connections are closed at the end.

    With `notes`, a feed that has not changed since an earlier run is not sent again.
    """
    settings = scraper.settings
    network = _Network(scraper)
    fetch_feed = FeedCache(notes, scraper.name, network.fetch).fetch if notes else network.fetch

    def rewrite(url: str, origin: str) -> str | None:
        has_secrets = bool(secret_headers(settings.headers))
        return settings.scope.secure_url(url, origin=origin) if has_secrets else url

    def opened() -> Iterator[Source]:
        for kind, addresses, hosts in seeds.by_kind():
            options = SourceOptions(
                step=step,
                fetch=fetch_feed if kind == FEED else network.fetch,
                since=seeds.since,
                hosts=hosts,
                delay=settings.delay,
                rewrite=rewrite,
            )
            opener = SOURCES.find(kind)
            if opener and kind in SOURCES.builtin:
                yield opener(addresses, options)  # type: ignore[misc]
            elif opener:
                tasks = iterate_source(kind, opener, addresses, options)
                yield GivenTasks(kind, tasks, step, scraper.steps)

    try:
        yield list(opened())
    finally:
        await network.close()


class _Network:
    """The fetcher of sources, opened with the first request: not every source needs one."""

    def __init__(self, scraper: Scraper) -> None:
        self._settings = scraper.settings
        self._fetcher: Fetcher | None = None

    async def fetch(self, request: Request) -> Response:
        if self._fetcher is None:
            agent = self._settings.user_agent or USER_AGENT
            limits = Limits(max_body=SitemapLimits().max_bytes)
            self._fetcher = await open_fetcher(self._settings, user_agent=agent, limits=limits)
        return await self._fetcher.fetch(request)

    async def close(self) -> None:
        if self._fetcher:
            await self._fetcher.close()
