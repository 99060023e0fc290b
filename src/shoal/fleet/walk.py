"""A walk through the sitemaps that a run begins with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.model import MINUTE
from shoal.discover.sitemaps import SitemapLimits, Sitemaps
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.limits import Limits
from shoal.fetch.proxies.patient import PatientFetcher
from shoal.fleet.seeds import Seeds
from shoal.scrape.scraper import Scraper
from shoal.worker.child import USER_AGENT
from shoal.worker.proxying import by_proxies
from shoal.worker.tor import by_tor, tor_door

TOR_PATIENCE = 2 * MINUTE


@asynccontextmanager
async def open_walk(seeds: Seeds, scraper: Scraper, step: str) -> AsyncIterator[Sitemaps]:
    """Yield the sitemaps of a run as a source; the connections are closed with it."""
    settings = scraper.settings
    direct = HttpFetcher(
        Limits(max_body=SitemapLimits().max_bytes),
        egress=tor_door(settings) or Egress(settings.allow_private),
        user_agent=settings.user_agent or USER_AGENT,
    )
    fetcher = await by_tor(settings, None, direct, wait=TOR_PATIENCE)
    fetcher = await by_proxies(settings, None, fetcher)
    if settings.proxies or settings.tor:
        fetcher = PatientFetcher(fetcher)
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
