"""A walk through the sitemaps that a run begins with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.secrets import secret_headers
from shoal.discover.sitemaps import SitemapLimits, Sitemaps
from shoal.fetch.limits import Limits
from shoal.fleet.seeds import Seeds
from shoal.scrape.scraper import Scraper
from shoal.worker.child import USER_AGENT
from shoal.worker.fetching import open_fetcher


@asynccontextmanager
async def open_walk(seeds: Seeds, scraper: Scraper, step: str) -> AsyncIterator[Sitemaps]:
    """Yield the sitemaps of a run as a source; the connections are closed with it."""
    settings = scraper.settings
    agent, limits = settings.user_agent or USER_AGENT, Limits(max_body=SitemapLimits().max_bytes)

    def lead(url: str, origin: str) -> str | None:
        has_secrets = bool(secret_headers(settings.headers))
        return settings.scope.encrypted(url, origin=origin) if has_secrets else url

    fetcher = await open_fetcher(settings, user_agent=agent, limits=limits)
    try:
        yield Sitemaps(
            fetcher.fetch,
            *seeds.sitemaps,
            step=step,
            since=seeds.since,
            hosts=seeds.hosts,
            delay=settings.delay,
            lead=lead,
        )
    finally:
        await fetcher.close()
