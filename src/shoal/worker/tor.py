"""The Tor of one worker, by its scraper's settings."""

from datetime import timedelta

from shoal.core.model import ZERO
from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import Egress
from shoal.queue.contract import Queue
from shoal.scrape.settings import ScraperSettings


def tor_door(settings: ScraperSettings) -> Egress | None:
    """Return the door of a run by Tor, through which nobody is asked directly; None without Tor."""
    if settings.tor is None:
        return None
    from shoal.fetch.tor.egress import TorEgress

    return TorEgress(settings.allow_private)


async def by_tor(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    wait: timedelta = ZERO,
) -> Fetcher:
    """Return the fetcher by a Tor of its own, if the settings ask for one; `wait` until it is up.

    Without a queue the fleet hears nothing of it. Raises InvalidSetting, and TorDown if it is not up in time.
    """
    if settings.tor is None:
        return fetcher
    # Loaded by those who use it: every other run begins sooner without.
    from shoal.fetch.tor.board import Board
    from shoal.fetch.tor.fetcher import TorFetcher
    from shoal.fetch.tor.tor import Tor

    tor = await Tor.open(settings.tor.torrc)
    try:
        if wait:
            await tor.until_up(wait)
    except BaseException:
        await tor.close()
        raise
    by = TorFetcher(
        fetcher,
        tor,
        renew=settings.tor.renew,
        statuses=settings.statuses,
        block=settings.block,
    )
    if queue:
        by.tell(Board(queue, run_id))
    return by
