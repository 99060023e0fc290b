"""A fetcher that sends requests through proxies, and tells a proxy's failures from those of its targets."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from shoal.core.commands import run_command
from shoal.core.errors import (
    Blocked,
    BrokenAnswer,
    ConnectFailed,
    FetchTimeout,
    NoProxyLeft,
    NotNow,
    ProxyFailed,
    ProxyRefused,
    ProxyTrouble,
    QueueError,
)
from shoal.core.http import Request, Response
from shoal.core.model import SECOND, ZERO
from shoal.core.proxies import ProxyRules
from shoal.core.tasks import wait_for_event, watched
from shoal.fetch.contract import Fetcher, current
from shoal.fetch.proxies.health import ProxyFault, ProxyHealth
from shoal.fetch.proxies.pool import NONE, ProxyPool, ProxyShortage
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.singleflight import LruCache
from shoal.fetch.status import is_block

QUICK = 0.25  # seconds in which a request may still be sent without coming too close to the next one
HOLD_TIMEOUT_SECONDS = 15.0  # that a task waits here when no proxy is left, before it is postponed
MAX_WAIT = timedelta(seconds=30)
MAX_FREE = 3  # responses for one URL that are blamed on proxies
MAX_URLS = 10_000
WARN_INTERVAL_SECONDS = 60.0  # between two warnings
MOMENT = 0.05  # seconds
# Statuses of a host that rejects a client, and statuses of a proxy that responds in place of a host.
REJECTED, PROXY_STATUSES = frozenset({403, 429}), frozenset({502, 503, 504})
# A proxy that never returned a page is blamed for these too: wrong credentials, or an unreachable host.
SUSPECT_STATUSES = frozenset({401, 403, 500, 502, 504})
log = logging.getLogger("shoal.proxies")

SiteProxies = ProxyRules | Literal[False] | None  # False: a direct connection, None: as for all sites

ATTEMPTS = 5
MAX_RETRY_WAIT = 2.0  # seconds between two


class ProxiesFetcher:
    """Sends each request through the proxy that the strategy picks."""

    def __init__(
        self,
        fetcher: Fetcher,
        pool: ProxyPool,
        *,
        source: ProxySource | None = None,
        sync: ProxySync | None = None,
        statuses: Collection[int] = (),
        block: re.Pattern[str] | None = None,
    ) -> None:
        self._fetcher, self._pool, self._rules = fetcher, pool, pool.rules
        self._source, self._sync = source, sync
        self._statuses, self._block = statuses, block
        self._failed_by: LruCache[list[str]] = LruCache(MAX_URLS)  # proxies through which a URL has failed
        self._running: list[asyncio.Task[None]] = []
        self._warned_at = float("-inf")

    async def start(self) -> None:
        """Read the fleet's state of the proxies, and keep it in sync."""
        if self._sync:
            with suppress(QueueError):
                await self._sync.exchange()
            self._running.append(watched(asyncio.create_task(self._sync.run())))
        if self._source:
            self._running.append(watched(asyncio.create_task(self._watch_source(self._source))))

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status.

        Raises FetchError; ProxyTrouble or NoProxyLeft if neither the task nor its host is at fault.
        """
        began, host = time.monotonic(), _host(request.url)
        failed = self._failed_by.get(request.url)
        avoid: set[str] | frozenset[str] = set(failed) if failed else NONE
        while True:
            health = await self._pick(request, host, avoid, began)
            if health is None:
                return await self._fetcher.fetch(request)
            try:
                return await self._send_via(health, request)
            except ProxyFailed as error:
                # The target received nothing, so another proxy may be tried at once.
                if time.monotonic() - began > QUICK:
                    raise ProxyTrouble(str(error), ZERO) from None
            avoid = {*avoid, health.proxy.name}

    async def close(self) -> None:
        """Publish the statistics, and close every connection."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._sync:
            self._sync.log_results()
            with suppress(QueueError):
                await self._sync.publish_stats(now=True)
        await self._fetcher.close()

    async def _pick(
        self, request: Request, host: str, avoid: Collection[str], began: float
    ) -> ProxyHealth | None:
        """Return the proxy to use, None for a direct connection."""
        task = current() if self._rules.rotate == "task" else None
        if task and task[-1].proxy.name not in avoid and self._pool.is_free(task[-1], host):
            self._check_gap(task[-1], host)
            return task[-1]
        key = request.identity.key if request.identity else None
        health = self._pool.pick(host, key, avoid) or self._pool.pick(host, key)
        while health is None:
            shortage = self._pool.shortage(host)
            if shortage is ProxyShortage.BENCHED and self._rules.direct:
                return None
            await self._wait_or_raise(shortage, host, began)
            health = self._pool.pick(host, key)
        self._check_gap(health, host)
        if task is not None:
            task.append(health)
        return health

    def _check_gap(self, health: ProxyHealth, host: str) -> None:
        if wait := self._pool.wait(health, host):
            raise ProxyTrouble(
                f"{health.proxy.name} has just sent a request to {host}", timedelta(seconds=wait)
            )

    async def _wait_or_raise(self, shortage: ProxyShortage, host: str, began: float) -> None:
        """Wait a moment where that may help; else raise why the task is postponed."""
        match shortage:
            case ProxyShortage.BLOCKED:
                raise Blocked(403, message=f"{host} has blocked every proxy")
            case ProxyShortage.BENCHED:
                await self._postpone()
            case ProxyShortage.TOO_SOON:
                wait = timedelta(seconds=self._pool.free_in(host))
                raise ProxyTrouble(f"every proxy has just sent a request to {host}", wait)
            case ProxyShortage.BUSY:
                left = began + QUICK - time.monotonic()
                if left > 0:
                    await self._wait_for_change(left)
                else:
                    raise ProxyTrouble("every proxy that is left is on trial and busy", SECOND)

    async def _postpone(self) -> None:
        self._warn(self._pool.back_in)
        if self._sync:
            await self._wait_for_change(min(HOLD_TIMEOUT_SECONDS, self._pool.back_in + MOMENT))
        # Postponed even if one has returned: many tasks have waited, and must not start all at once.
        wait = min(timedelta(seconds=self._pool.back_in), MAX_WAIT)
        raise NoProxyLeft("every proxy is benched", wait)

    async def _wait_for_change(self, seconds: float) -> None:
        self._pool.changed.clear()
        await wait_for_event(self._pool.changed, seconds)

    async def _send_via(self, health: ProxyHealth, request: Request) -> Response:
        pool, limit = self._pool, self._rules.timeout
        timeout = min(limit, request.timeout) if limit else request.timeout
        pool.begin(health, _host(request.url))
        try:
            response = await self._fetcher.fetch(replace(request, proxy=health.proxy, timeout=timeout))
        except ProxyFailed as error:
            fault = ProxyFault.REFUSED if isinstance(error, ProxyRefused) else ProxyFault.DEAD
            self._record_failure(health, request, fault, error, is_sure=error.is_sure)
            raise
        except FetchTimeout as error:
            self._record_failure(health, request, ProxyFault.SLOW, error)
            raise
        except (ConnectFailed, BrokenAnswer) as error:
            self._record_failure(health, request, ProxyFault.DEAD, error)
            raise
        finally:
            pool.end(health)
        self._rate_response(health, request, response)
        return response

    def _record_failure(
        self,
        health: ProxyHealth,
        request: Request,
        fault: ProxyFault,
        error: Exception,
        *,
        is_sure: bool = False,
    ) -> None:
        """Count a failure of a proxy; raise ProxyTrouble where it cannot be the target's."""
        is_proven = health.is_proven
        if isinstance(error, BrokenAnswer) and _is_relayed(health, request.url):
            # A proxy may close a connection at the moment in which it is reused.
            is_proven = is_proven and len(self._failed_by.get(request.url) or ()) >= MAX_FREE
        self._pool.record_failure(health, fault)
        self._remember_failure(request.url, health)
        if is_sure:
            return
        if not is_proven:
            raise ProxyTrouble(f"through {health.proxy.name}: {error}", ZERO) from None
        if isinstance(error, ProxyFailed):
            # The proxy works for other targets: this one is as likely to be at fault, so the attempt counts.
            raise ConnectFailed(f"{_host(request.url)}: connection failed. {error}") from None

    def _rate_response(self, health: ProxyHealth, request: Request, response: Response) -> None:
        """Rate a proxy by its response; raise ProxyTrouble where the response is not the host's."""
        host, is_relayed = _host(response.url), _is_relayed(health, response.url)
        if is_relayed and _is_auth_failure(health, response) and response.status not in self._statuses:
            self._pool.record_failure(health, ProxyFault.REFUSED)
            self._remember_failure(request.url, health)
            raise ProxyTrouble(f"{health.proxy.name} rejected its user or password ({response.status})", ZERO)
        if not self._is_rejection(health, response, is_relayed):
            self._pool.record_page(health, host, response.elapsed.total_seconds())
            return
        is_free = self._is_free(health, request.url, response, host, is_relayed)
        if not is_relayed:
            health.record_success()
        self._pool.record_block(health, host)
        self._remember_failure(request.url, health)
        if is_free:
            raise ProxyTrouble(f"{health.proxy.name} responded {response.status} for {host}", ZERO)

    def _is_rejection(self, health: ProxyHealth, response: Response, is_relayed: bool) -> bool:
        status = response.status
        if status in self._statuses:
            return False
        if status in REJECTED or (is_relayed and status in PROXY_STATUSES):
            return True
        if is_relayed and not health.has_worked and status in SUSPECT_STATUSES:
            return True
        return status == 200 and is_block(response, block=self._block)

    def _is_free(
        self, health: ProxyHealth, url: str, response: Response, host: str, is_relayed: bool
    ) -> bool:
        """Tell whether a response is the proxy's fault, so that it costs the task no attempt."""
        if self._pool.hosts.has_accepted(health.proxy.name, host) or response.headers.get("retry-after"):
            return False
        if is_relayed and not health.has_worked and response.status in SUSPECT_STATUSES:
            return True
        return self._pool.hosts.is_up(host) and len(self._failed_by.get(url) or ()) < MAX_FREE

    def _remember_failure(self, url: str, health: ProxyHealth) -> None:
        failed = self._failed_by.get(url)
        self._failed_by.put(url, [*(failed or ())[-9:], health.proxy.name])
        if self._sync is None:
            self._pool.bench_locally()

    def _warn(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._warned_at > WARN_INTERVAL_SECONDS:
            self._warned_at = now
            log.warning(
                "No proxy is left: all are benched, the next one returns in %d s. Tasks wait. "
                "Which ones, and why: %s",
                round(seconds),
                run_command("proxies"),
            )

    async def _watch_source(self, source: ProxySource) -> None:
        while True:
            self._pool.replace(await source.changes())


def _host(url: str) -> str:
    return url.split("/", 3)[2].rpartition("@")[2].lower()


def _is_relayed(health: ProxyHealth, url: str) -> bool:
    """Tell whether a proxy relays plain HTTP, and may send a response of its own."""
    return url.startswith("http:") and health.proxy.url.startswith("http")


def _is_auth_failure(health: ProxyHealth, response: Response) -> bool:
    """Tell whether a proxy rejected our credentials: some respond 401 instead of 407."""
    if response.status == 407:
        return True
    if response.status != 401 or health.has_worked or "@" not in health.proxy.url:
        return False
    # A host that requires a password names the scheme; a proxy does not, or says that it is one.
    challenge = response.headers.get("www-authenticate", "")
    return not challenge or "proxy" in f"{challenge} {response.headers.get('server', '')}".lower()


class SiteProxiesFetcher:
    """Chooses the proxies of a request by the site of its URL; redirects stay with them."""

    def __init__(
        self,
        direct: Fetcher,
        usual: Fetcher,
        by_rules: Sequence[tuple[ProxyRules, Fetcher]],
        find: Callable[[str], SiteProxies],
    ) -> None:
        self._direct, self._usual, self._find = direct, usual, find
        self._by_rules = by_rules

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, ProxyTrouble or NoProxyLeft."""
        rules = self._find(request.url)
        chosen = self._usual
        if rules is not None:
            chosen = next((fetcher for own, fetcher in self._by_rules if own == rules), self._direct)
        return await chosen.fetch(request)

    async def close(self) -> None:
        """Close every connection."""
        for fetcher in (*(fetcher for _, fetcher in self._by_rules), self._usual):
            await fetcher.close()


class RetryingFetcher:
    """Retries a few times what cannot be fetched at the moment."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return await self._fetcher.fetch(request)
            except NotNow as reason:
                if not left or isinstance(reason, NoProxyLeft):
                    raise ConnectFailed(str(reason)) from None
                await asyncio.sleep(min(reason.after.total_seconds(), MAX_RETRY_WAIT))
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Close every connection."""
        await self._fetcher.close()
