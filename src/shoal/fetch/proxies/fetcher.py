"""A fetcher whose requests go out by proxies, and that tells a proxy's faults from those of its targets."""

import asyncio
import logging
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import (
    Blocked,
    BrokenAnswer,
    ConnectFailed,
    FetchTimeout,
    NoProxyLeft,
    ProxyFailed,
    ProxyRefused,
    ProxyTrouble,
    QueueError,
)
from shoal.core.exchange import Request, Response
from shoal.core.model import SECOND, ZERO
from shoal.core.tasks import watched
from shoal.fetch.answer import accepted
from shoal.fetch.contract import Fetcher
from shoal.fetch.proxies.board import Board
from shoal.fetch.proxies.pool import NOBODY, Pool, Shortage
from shoal.fetch.proxies.source import Source
from shoal.fetch.proxies.standing import Fault, Standing
from shoal.fetch.rotation import current
from shoal.fetch.shared import Shelf

QUICK = 0.25  # seconds in which a request may still go out without coming too close to the next one
HOLD = 15.0  # seconds that a task waits here when no proxy is left, before it goes back
LONGEST_WAIT = timedelta(seconds=30)
MOST_FREE = 3  # answers to one URL that are blamed on proxies
MOST_URLS = 10_000
SAY_AGAIN = 60.0  # seconds
MOMENT = 0.05  # seconds
# What a host says to one whom it does not like, and what a proxy says in the place of a host.
UNWELCOME, NOT_THE_HOST = frozenset({403, 429}), frozenset({502, 503, 504})
# What a proxy that never gave a page is blamed for too: wrong credentials, or a host that it cannot reach.
ITS_OWN = frozenset({401, 403, 500, 502, 504})
log = logging.getLogger("shoal.proxies")


class ProxiesFetcher:
    """Sends each request by the proxy whose turn it is."""

    def __init__(
        self,
        fetcher: Fetcher,
        pool: Pool,
        *,
        source: Source | None = None,
        board: Board | None = None,
        statuses: Collection[int] = (),
        block: re.Pattern[str] | None = None,
    ) -> None:
        self._fetcher, self._pool, self._rules = fetcher, pool, pool.rules
        self._source, self._board = source, board
        self._statuses, self._block = statuses, block
        self._failed_by: Shelf[list[str]] = Shelf(MOST_URLS)  # proxies by which a URL has failed
        self._running: list[asyncio.Task[None]] = []
        self._said_at = float("-inf")

    async def start(self) -> None:
        """Learn what the fleet knows, and go on learning."""
        if self._board:
            with suppress(QueueError):
                await self._board.exchange()
            self._running.append(watched(asyncio.create_task(self._board.run())))
        if self._source:
            self._running.append(watched(asyncio.create_task(self._renew(self._source))))

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status.

        Raises FetchError; ProxyTrouble or NoProxyLeft for what is no fault of the task's or its host's.
        """
        began, host = time.monotonic(), _host(request.url)
        failed = self._failed_by.get(request.url)
        avoid: set[str] | frozenset[str] = set(failed) if failed else NOBODY
        while True:
            standing = await self._take(request, host, avoid, began)
            if standing is None:
                return await self._fetcher.fetch(request)
            try:
                return await self._by(standing, request)
            except ProxyFailed as error:
                # Its target was never asked, so that another may ask it at once.
                if time.monotonic() - began > QUICK:
                    raise ProxyTrouble(str(error), ZERO) from None
            avoid = {*avoid, standing.way.name}

    async def close(self) -> None:
        """Tell the fleet what was done, and let go of every connection."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._board:
            with suppress(QueueError):
                await self._board.tell_deeds(now=True)
        await self._fetcher.close()

    async def _take(
        self, request: Request, host: str, avoid: Collection[str], began: float
    ) -> Standing | None:
        """Return the proxy to take, None for a direct connection."""
        task = current() if self._rules.rotate == "task" else None
        if task and task[-1].way.name not in avoid and self._pool.is_free(task[-1], host):
            self._keep_gap(task[-1], host)
            return task[-1]
        key = request.guise.key if request.guise else None
        standing = self._pool.pick(host, key, avoid) or self._pool.pick(host, key)
        while standing is None:
            shortage = self._pool.shortage(host)
            if shortage is Shortage.BENCHED and self._rules.direct:
                return None
            await self._do_without(shortage, host, began)
            standing = self._pool.pick(host, key)
        self._keep_gap(standing, host)
        if task is not None:
            task.append(standing)
        return standing

    def _keep_gap(self, standing: Standing, host: str) -> None:
        if wait := self._pool.wait(standing, host):
            raise ProxyTrouble(f"{standing.way.name} has just asked {host}", timedelta(seconds=wait))

    async def _do_without(self, shortage: Shortage, host: str, began: float) -> None:
        """Wait a moment where that may help; else raise what the task is to hear."""
        match shortage:
            case Shortage.BLOCKED:
                raise Blocked(403, message=f"{host} has blocked every proxy")
            case Shortage.BENCHED:
                await self._hold()
            case Shortage.TOO_SOON:
                wait = timedelta(seconds=self._pool.free_in(host))
                raise ProxyTrouble(f"every proxy has just asked {host}", wait)
            case Shortage.BUSY:
                left = began + QUICK - time.monotonic()
                if left <= 0 or not await self._changed(left):
                    raise ProxyTrouble("every proxy that is left is on trial, and at work", SECOND)

    async def _hold(self) -> None:
        self._say(self._pool.back_in)
        if self._board:
            await self._changed(min(HOLD, self._pool.back_in + MOMENT))
        # It goes back even if one has returned: many have waited, and must not ask all at once.
        wait = min(timedelta(seconds=self._pool.back_in), LONGEST_WAIT)
        raise NoProxyLeft("every proxy is benched", wait)

    async def _changed(self, seconds: float) -> bool:
        self._pool.changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._pool.changed.wait()
        except TimeoutError:
            return False
        return True

    async def _by(self, standing: Standing, request: Request) -> Response:
        pool, limit = self._pool, self._rules.timeout
        timeout = min(limit, request.timeout) if limit else request.timeout
        pool.begin(standing, _host(request.url))
        try:
            response = await self._fetcher.fetch(replace(request, way=standing.way, timeout=timeout))
        except ProxyFailed as error:
            fault = Fault.REFUSED if isinstance(error, ProxyRefused) else Fault.DEAD
            self._blame(standing, request, fault, error, is_sure=error.is_sure)
            raise
        except FetchTimeout as error:
            self._blame(standing, request, Fault.SLOW, error)
            raise
        except (ConnectFailed, BrokenAnswer) as error:
            self._blame(standing, request, Fault.DEAD, error)
            raise
        finally:
            pool.end(standing)
        self._weigh(standing, request, response)
        return response

    def _blame(
        self, standing: Standing, request: Request, fault: Fault, error: Exception, *, is_sure: bool = False
    ) -> None:
        """Count a failure against a proxy; raise ProxyTrouble where it cannot be the target's."""
        is_proven = standing.is_proven
        if isinstance(error, BrokenAnswer) and _is_relayed(standing, request.url):
            # A proxy may close a connection in the moment in which it is used again.
            is_proven = is_proven and len(self._failed_by.get(request.url) or ()) >= MOST_FREE
        self._pool.failed(standing, fault)
        self._remember(request.url, standing)
        if is_sure:
            return
        if not is_proven:
            raise ProxyTrouble(f"by {standing.way.name}: {error}", ZERO) from None
        if isinstance(error, ProxyFailed):
            # The proxy does well with others: its target is as likely to be at fault, and the task pays.
            raise ConnectFailed(f"{_host(request.url)}: no connection could be made. {error}") from None

    def _weigh(self, standing: Standing, request: Request, response: Response) -> None:
        """Judge a proxy by the answer that came; raise ProxyTrouble where it is not the host's."""
        host, is_relayed = _host(response.url), _is_relayed(standing, response.url)
        if is_relayed and _is_password_refused(standing, response) and response.status not in self._statuses:
            self._pool.failed(standing, Fault.REFUSED)
            self._remember(request.url, standing)
            raise ProxyTrouble(f"{standing.way.name} refused its user or password ({response.status})", ZERO)
        if not self._is_unwelcome(standing, response, is_relayed):
            self._pool.served(standing, host, response.elapsed.total_seconds())
            return
        is_free = self._is_free(standing, request.url, response, host, is_relayed)
        if not is_relayed:
            standing.worked()
        self._pool.blocked(standing, host)
        self._remember(request.url, standing)
        if is_free:
            raise ProxyTrouble(f"{standing.way.name} answered {response.status} for {host}", ZERO)

    def _is_unwelcome(self, standing: Standing, response: Response, is_relayed: bool) -> bool:
        status = response.status
        if status in self._statuses:
            return False
        if status in UNWELCOME or (is_relayed and status in NOT_THE_HOST):
            return True
        if is_relayed and not standing.has_worked and status in ITS_OWN:
            return True
        if self._block is None:
            return False
        try:
            accepted(response, also=self._statuses, block=self._block)
        except Blocked:
            return status == 200
        except Exception:
            return False
        return False

    def _is_free(self, standing: Standing, url: str, response: Response, host: str, is_relayed: bool) -> bool:
        """Tell whether an answer is to be blamed on the proxy, so that the task does not pay for it."""
        if self._pool.hosts.is_welcome(standing.way.name, host) or response.headers.get("retry-after"):
            return False
        if is_relayed and not standing.has_worked and response.status in ITS_OWN:
            return True
        return self._pool.hosts.is_well(host) and len(self._failed_by.get(url) or ()) < MOST_FREE

    def _remember(self, url: str, standing: Standing) -> None:
        failed = self._failed_by.get(url)
        self._failed_by.put(url, [*(failed or ())[-9:], standing.way.name])
        if self._board is None:
            self._pool.judge_alone()

    def _say(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._said_at > SAY_AGAIN:
            self._said_at = now
            log.warning(
                "No proxy is left: all are benched, the next one comes back in %d s. Tasks wait. "
                "Which ones, and why: shoal proxies",
                round(seconds),
            )

    async def _renew(self, source: Source) -> None:
        while True:
            self._pool.replace(await source.changes())


def _host(url: str) -> str:
    return url.split("/", 3)[2].rpartition("@")[2].lower()


def _is_relayed(standing: Standing, url: str) -> bool:
    """Tell whether a proxy reads and writes the answers itself, and may give one of its own."""
    return url.startswith("http:") and standing.way.url.startswith("http")


def _is_password_refused(standing: Standing, response: Response) -> bool:
    """Tell whether an answer is a proxy's word on our credentials: some say 401 where they should say 407."""
    if response.status == 407:
        return True
    if response.status != 401 or standing.has_worked or "@" not in standing.way.url:
        return False
    # A host that wants a password names the way to give it; a proxy does not, or says that it is one.
    asked = response.headers.get("www-authenticate", "")
    return not asked or "proxy" in f"{asked} {response.headers.get('server', '')}".lower()
