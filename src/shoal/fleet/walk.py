"""A walk through the sitemaps that a run begins with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.model import MINUTE
from shoal.discover.sitemaps import SitemapLimits, Sitemaps
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.limits import Limits
from shoal.fetch.tor.egress import TorEgress
from shoal.fleet.seeds import Seeds
from shoal.scrape.scraper import Scraper
from shoal.worker.child import USER_AGENT
from shoal.worker.tor import by_tor

TOR_PATIENCE = 2 * MINUTE


@asynccontextmanager
async def open_walk(seeds: Seeds, scraper: Scraper, step: str) -> AsyncIterator[Sitemaps]:
    """Yield the sitemaps of a run as a source; the connections are closed with it."""
    settings = scraper.settings
    door = TorEgress if settings.tor else Egress
    direct = HttpFetcher(
        Limits(max_body=SitemapLimits().max_bytes),
        egress=door(settings.allow_private),
        user_agent=settings.user_agent or USER_AGENT,
    )
    fetcher = await by_tor(settings, direct, wait=TOR_PATIENCE)
    try:
        yield Sitemaps(
            fetcher.fetch,
            *seeds.sitemaps,
            step=step,
            since=seeds.since,
            hosts=seeds.hosts,
            delay=settings.delay,
        )
    finally:
        await fetcher.close()
