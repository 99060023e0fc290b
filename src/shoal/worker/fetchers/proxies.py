"""Opens the proxies of a worker; imported only for a scraper that has some."""

import secrets

from shoal.core.proxies import ProxyRules
from shoal.fetch.contract import Fetcher
from shoal.fetch.proxies.fetcher import ProxiesFetcher, SiteProxiesFetcher
from shoal.fetch.proxies.pool import CountProxy, ProxyPool
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.shared_state import secret_of
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
