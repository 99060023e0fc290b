"""Opens the sitemaps that a run starts with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.secrets import secret_headers
from shoal.discover.sitemaps.walk import SitemapLimits, Sitemaps
from shoal.fetch.response_limits import Limits
from shoal.fleet.sources.seeds import Seeds
from shoal.scrape.scraper import Scraper
from shoal.worker.fetchers.chain import open_fetcher
from shoal.worker.process.main import USER_AGENT


@asynccontextmanager
async def open_walk(seeds: Seeds, scraper: Scraper, step: str) -> AsyncIterator[Sitemaps]:
    """Yield the sitemaps of a run as a source; its connections are closed at the end."""
    settings = scraper.settings
    agent, limits = settings.user_agent or USER_AGENT, Limits(max_body=SitemapLimits().max_bytes)

    def rewrite(url: str, origin: str) -> str | None:
        has_secrets = bool(secret_headers(settings.headers))
        return settings.scope.secure_url(url, origin=origin) if has_secrets else url

    fetcher = await open_fetcher(settings, user_agent=agent, limits=limits)
    try:
        yield Sitemaps(
            fetcher.fetch,
            *seeds.sitemaps,
            step=step,
            since=seeds.since,
            hosts=seeds.hosts,
            delay=settings.delay,
            rewrite=rewrite,
        )
    finally:
        await fetcher.close()
