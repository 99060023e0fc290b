"""What the requests of a worker pass: its proxies, or its own Tor process."""

import secrets
from datetime import timedelta

from shoal.core.model import ZERO
from shoal.core.proxies import ProxyRules
from shoal.fetch.contract import Fetcher
from shoal.fetch.proxies.fetcher import ProxiesFetcher, SiteProxiesFetcher
from shoal.fetch.proxies.pool import CountProxy, ProxyPool
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.shared_state import secret_of
from shoal.fetch.tor.fetcher import TorFetcher
from shoal.fetch.tor.sync import TorSync
from shoal.fetch.tor.tor import Tor
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import ScraperSettings

SALT = "proxies"  # the key of the secret that salts the names of proxies with credentials


async def with_proxies(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    worker_id: str = "",
    count: CountProxy | None = None,
) -> Fetcher:
    """Return the fetcher with the proxies of the settings; without a queue their state is not shared."""
    me = worker_id or secrets.token_hex(8)
    usual = fetcher
    if settings.proxies:
        usual = await _open_proxies(settings.proxies, settings, queue, fetcher, run_id, me, count=count)
    if not settings.sites.have_proxies:
        return usual

    by_rules = [
        (rules, await _open_proxies(rules, settings, queue, fetcher, run_id, me, group=pattern, count=count))
        for pattern, rules in settings.sites.proxies.items()
    ]
    return SiteProxiesFetcher(fetcher, usual, by_rules, lambda url: settings.sites.find(url).proxies)


async def _open_proxies(
    rules: ProxyRules,
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    run_id: str,
    me: str,
    *,
    group: str = "",
    count: CountProxy | None = None,
) -> Fetcher:
    source = ProxySource(rules, salt=await secret_of(queue, SALT) if queue else secrets.token_bytes(32))
    gap = settings.delay.total_seconds() if rules.per_exit else 0.0
    pool = ProxyPool(rules, await source.read(), gap=gap, count=count)
    sync = ProxySync(queue, run_id, f"{me} {group}".strip(), pool, group=group) if queue else None
    proxied = ProxiesFetcher(
        fetcher, pool, source=source, sync=sync, statuses=settings.statuses, block=settings.block
    )
    await proxied.start()
    return proxied


async def with_tor(
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    *,
    run_id: str = "",
    worker_id: str = "",
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
        proxied.start_sync(TorSync(queue, run_id, worker_id))
    return proxied
