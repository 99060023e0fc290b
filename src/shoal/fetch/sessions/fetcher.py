"""A fetcher that comes to a host as one of several visitors."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from re import Pattern
from urllib.parse import urlsplit

from shoal.core.errors import Blocked, HttpStatus, NoSession, NotNow
from shoal.core.exchange import Request, Response
from shoal.core.model import ZERO
from shoal.core.urls import canonical, host_of
from shoal.fetch.answer import accepted
from shoal.fetch.contract import Fetcher
from shoal.fetch.sessions.pool import SessionPool, SessionRules
from shoal.fetch.sessions.session import Session
from shoal.fetch.shared import Shelf
from shoal.fetch.sparing import Sparing
from shoal.fetch.tokens.token import origin_of

MOST_HOSTS = 1_000
MOST_PAGES = 10_000
MOST_RETURNS = 2  # of a page that calls a visitor unknown; then the page is believed

Send = Callable[[Request], Awaitable[Response]]
Fill = Callable[[Session, str, Send], Awaitable[None]]  # logs a visitor in at an origin


class SessionFetcher:
    """Fetches each page as the visitor whose turn it is; what belongs to one never goes out with another."""

    def __init__(
        self,
        fetcher: Fetcher,
        rules: SessionRules,
        *,
        per_host: bool = True,
        login: Fill | None = None,
        also: Collection[int] = (),
        block: Pattern[str] | None = None,
        sparing: Sparing | None = None,
    ) -> None:
        self._fetcher, self._rules, self._per_host, self._login = fetcher, rules, per_host, login
        self._also, self._block, self._sparing = also, block, sparing
        self._pools: Shelf[SessionPool] = Shelf(MOST_HOSTS)
        self._opened: set[SessionPool] = set()
        self._returned: Shelf[int] = Shelf(MOST_PAGES)

    async def fetch(self, request: Request) -> Response:
        """Return the answer to one of the visitors, whatever its status; raises NoSession without one."""
        url = canonical(request.url)
        if request.guise or urlsplit(url).path == "/robots.txt":
            return await self._fetcher.fetch(request)
        host, origin = host_of(url), origin_of(url)
        pool = self._pool(host, origin)
        try:
            session = await pool.take()
        except NoSession as wait:
            if self._sparing:
                await self._sparing.spare(host, wait.after)
            raise
        headers = {**request.headers, **session.headers(origin)}
        response = await self._sent(replace(request, headers=headers, guise=session.guise), session)
        return self._judged(response, session, pool, url)

    async def close(self) -> None:
        """End logins that are under way, and let go of every connection."""
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
        return lambda session: login(session, origin, lambda request: self._as(session, request))

    async def _as(self, session: Session, request: Request) -> Response:
        return await self._fetcher.fetch(replace(request, guise=session.guise))

    async def _sent(self, request: Request, session: Session) -> Response:
        try:
            return await self._fetcher.fetch(request)
        except NotNow:
            session.uses -= 1
            raise

    def _judged(self, response: Response, session: Session, pool: SessionPool, url: str) -> Response:
        """Score the visitor by its answer; one that is logged in no longer is replaced."""
        try:
            accepted(response, also=self._also, block=self._block)
        except Blocked:
            session.blame()
        except HttpStatus as error:
            if error.status == 401 and self._login:
                pool.log_out(session)
                self._try_again(url)
        else:
            session.praise()
        return response

    def _try_again(self, url: str) -> None:
        times = (self._returned.get(url) or 0) + 1
        self._returned.put(url, times)
        if times <= MOST_RETURNS:
            raise NoSession("The session was logged in no longer; another is taken", ZERO)
