"""A fetcher that uses a pool of sessions per host."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from re import Pattern
from urllib.parse import urlsplit

from shoal.core.errors import Blocked, HttpStatus, NoSession, NotNow
from shoal.core.http import Request, Response
from shoal.core.model import ZERO
from shoal.core.urls import canonical, host_of, origin_of
from shoal.fetch.contract import Fetcher
from shoal.fetch.sessions.pool import Session, SessionPool, SessionRules
from shoal.fetch.shared_state import HostPauser
from shoal.fetch.singleflight import LruCache
from shoal.fetch.status import accepted

MAX_HOSTS = 1_000
MAX_PAGES = 10_000
MAX_REQUEUES = 2  # requeues of a page that responds 401; after that the 401 counts

Send = Callable[[Request], Awaitable[Response]]
Fill = Callable[[Session, str, Send], Awaitable[None]]  # logs a session in at an origin


class SessionFetcher:
    """Fetches each page with the next session; the state of one session is never sent with another."""

    def __init__(
        self,
        fetcher: Fetcher,
        rules: SessionRules,
        *,
        per_host: bool = True,
        login: Fill | None = None,
        also: Collection[int] = (),
        block: Pattern[str] | None = None,
        pauser: HostPauser | None = None,
    ) -> None:
        self._fetcher, self._rules, self._per_host, self._login = fetcher, rules, per_host, login
        self._also, self._block, self._pauser = also, block, pauser
        self._pools: LruCache[SessionPool] = LruCache(MAX_HOSTS)
        self._opened: set[SessionPool] = set()
        self._requeues: LruCache[int] = LruCache(MAX_PAGES)

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises NoSession if no session is available."""
        url = canonical(request.url)
        if request.identity or request.is_foreign or urlsplit(url).path == "/robots.txt":
            return await self._fetcher.fetch(request)
        host, origin = host_of(url), origin_of(url)
        pool = self._pool(host, origin)
        try:
            session = await pool.take()
        except NoSession as wait:
            if self._pauser:
                await self._pauser.pause(host, wait.after)
            raise
        headers = {**request.headers, **session.headers(origin)}
        try:
            response = await self._fetcher.fetch(replace(request, headers=headers, identity=session.identity))
        except NotNow:
            session.uses -= 1
            raise
        return self._score_response(response, session, pool, url)

    async def close(self) -> None:
        """Cancel logins in progress, and close every connection."""
        await asyncio.gather(*(pool.close() for pool in self._opened))
        await self._fetcher.close()

    def _pool(self, host: str, origin: str) -> SessionPool:
        name = host if self._per_host else "all"
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools.put(name, SessionPool(self._rules, self._login_at(origin)))
            self._opened.add(pool)
        return pool

    def _login_at(self, origin: str) -> Callable[[Session], Awaitable[None]] | None:
        login = self._login
        if login is None:
            return None
        return lambda session: login(session, origin, lambda request: self._send_as(session, request))

    async def _send_as(self, session: Session, request: Request) -> Response:
        return await self._fetcher.fetch(replace(request, identity=session.identity))

    def _score_response(self, response: Response, session: Session, pool: SessionPool, url: str) -> Response:
        """Score the session by its response; one that is no longer logged in is retired."""
        try:
            accepted(response, also=self._also, block=self._block)
        except Blocked:
            session.record_block()
        except HttpStatus as error:
            if error.status == 401 and self._login:
                pool.log_out(session)
                self._requeue(url)
        else:
            session.record_success()
        return response

    def _requeue(self, url: str) -> None:
        times = (self._requeues.get(url) or 0) + 1
        self._requeues.put(url, times)
        if times <= MAX_REQUEUES:
            raise NoSession("The session is no longer logged in; another is used", ZERO)
