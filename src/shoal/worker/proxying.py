"""The proxies of one worker, by its scraper's settings."""

import secrets

from shoal.fetch.contract import Fetcher
from shoal.fetch.notes import secret_of
from shoal.queue.contract import Queue
from shoal.scrape.settings import ScraperSettings

SALT = "proxies"  # the key of what names of proxies with credentials are made with


async def by_proxies(
    settings: ScraperSettings, queue: Queue | None, fetcher: Fetcher, *, run_id: str = ""
) -> Fetcher:
    """Return the fetcher by the proxies that the settings name; without a queue nobody is told of them."""
    rules = settings.proxies
    if rules is None:
        return fetcher
    # Loaded by those who use them: every other run begins sooner without.
    from shoal.fetch.proxies.board import Board
    from shoal.fetch.proxies.fetcher import ProxiesFetcher
    from shoal.fetch.proxies.pool import Pool
    from shoal.fetch.proxies.source import Source

    source = Source(rules, salt=await secret_of(queue, SALT) if queue else secrets.token_bytes(32))
    gap = settings.delay.total_seconds() if rules.per_exit else 0.0
    pool = Pool(rules, await source.read(), gap=gap)
    board = Board(queue, run_id, secrets.token_hex(8), pool) if queue else None
    fetching = ProxiesFetcher(
        fetcher, pool, source=source, board=board, statuses=settings.statuses, block=settings.block
    )
    await fetching.start()
    return fetching
