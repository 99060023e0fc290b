"""Opens the Tor process of a worker; imported only for a scraper that uses Tor."""

from datetime import timedelta

from shoal.core.model import ZERO
from shoal.fetch.contract import Fetcher
from shoal.fetch.tor.fetcher import TorFetcher
from shoal.fetch.tor.sync import TorSync
from shoal.fetch.tor.tor import Tor
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import ScraperSettings


async def with_tor(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    wait: timedelta = ZERO,
) -> Fetcher:
    """Return the fetcher with its own Tor process, if the settings ask for one; `wait` until it is up.

    Without a queue its state is not shared. Raises InvalidSetting, and TorDown if it is not up in time.
    """
    if settings.tor is None:
        return fetcher
    tor = await Tor.open(settings.tor.torrc)
    try:
        if wait:
            await tor.wait_until_up(wait)
    except BaseException:
        await tor.close()
        raise
    proxied = TorFetcher(
        fetcher,
        tor,
        renew=settings.tor.renew,
        statuses=settings.statuses,
        block=settings.block,
    )
    if queue:
        proxied.start_sync(TorSync(queue, run_id))
    return proxied
