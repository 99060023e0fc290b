"""The proxies of one worker, from its scraper's settings."""

import secrets

from shoal.core.proxies import ProxyRules
from shoal.fetch.contract import Fetcher
from shoal.fetch.proxies.fetcher import ProxiesFetcher, SiteProxiesFetcher
from shoal.fetch.proxies.pool import ProxyPool
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.shared_state import secret_of
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import ScraperSettings

SALT = "proxies"  # the key of the secret that salts the names of proxies with credentials


async def with_proxies(
    settings: ScraperSettings, queue: Queue | None, fetcher: Fetcher, *, run_id: str = ""
) -> Fetcher:
    """Return the fetcher with the proxies of the settings; without a queue their state is not shared."""
    usual = fetcher
    if settings.proxies:
        usual = await _open_proxies(settings.proxies, settings, queue, fetcher, run_id)
    if not any(site.proxies is not None for site in settings.sites.rules.values()):
        return usual

    by_rules = [
        (rules, await _open_proxies(rules, settings, queue, fetcher, run_id, group=pattern))
        for pattern, rules in settings.sites.proxies.items()
    ]
    return SiteProxiesFetcher(fetcher, usual, by_rules, lambda url: settings.sites.find(url).proxies)


async def _open_proxies(
    rules: ProxyRules,
    settings: ScraperSettings,
    queue: Queue | None,
    fetcher: Fetcher,
    run_id: str,
    *,
    group: str = "",
) -> Fetcher:
    # Imported only if used: every other run starts faster without.

    source = ProxySource(rules, salt=await secret_of(queue, SALT) if queue else secrets.token_bytes(32))
    gap = settings.delay.total_seconds() if rules.per_exit else 0.0
    pool = ProxyPool(rules, await source.read(), gap=gap)
    sync = ProxySync(queue, run_id, secrets.token_hex(8), pool, group=group) if queue else None
    proxied = ProxiesFetcher(
        fetcher, pool, source=source, sync=sync, statuses=settings.statuses, block=settings.block
    )
    await proxied.start()
    return proxied
