"""A fetcher that uses a pool of sessions per host."""

import asyncio
import time
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
OVERLOADED = frozenset({429, 503})  # statuses that say nothing about a login
# Requeues of a page that ended sessions; after that the site refuses the page itself. A login that is refused
# at its first page is the clearer sign: few requeues follow.
MAX_REQUEUES, MAX_NEW_REQUEUES = 4, 1

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
        self._refusals: LruCache[tuple[int, float]] = LruCache(MAX_PAGES)  # number and time, by page

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

        async def on_hop(target: str) -> None:
            # Before anything else is said about the login page, such as that robots.txt forbids it.
            if page_of(target) in session.login_pages:
                self._end(session, pool, url)
                raise HttpStatus(401, message="The host redirects to its login page, after a new login too")
            if request.on_hop:
                await request.on_hop(target)

        sent = replace(request, headers=headers, identity=session.identity, on_hop=on_hop)
        try:
            response = await self._fetcher.fetch(sent)
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
        """Send a request of a login; what it fetches before it sends a form are login pages."""
        response = await self._fetcher.fetch(replace(request, identity=session.identity))
        if request.post is not None:
            session.has_sent_form = True
        elif not session.has_sent_form:
            session.login_pages |= {page_of(request.url), page_of(response.url)}
        return response

    def _score_response(self, response: Response, session: Session, pool: SessionPool, url: str) -> Response:
        """Score the session by its response; one that is no longer logged in ends."""
        try:
            accepted(response, also=self._also, block=self._block)
        except HttpStatus as error:
            is_block = isinstance(error, Blocked)
            if self._login and (error.status == 401 or (is_block and error.status not in OVERLOADED)):
                self._end(session, pool, url)
            if is_block:
                session.record_block()
        else:
            session.record_success()
        return response

    def _end(self, session: Session, pool: SessionPool, url: str) -> None:
        """Replace a session that is no longer logged in and requeue its page, unless that is refused."""
        times, last = self._refusals.get(url) or (0, float("-inf"))
        # Sessions may end together, and then refuse a page one after another.
        if session.created_at > last and not session.is_retired:
            times, last = times + 1, time.monotonic()
        if times > (MAX_NEW_REQUEUES if session.uses == 1 else MAX_REQUEUES):
            self._refusals.put(url, (MAX_REQUEUES + 1, last))
            return
        self._refusals.put(url, (times, last))
        pool.log_out(session)
        raise NoSession("The session is no longer logged in; another is used", ZERO)


def page_of(url: str) -> str:
    """Return a URL without its query, which names the page to return to after a login."""
    return url.partition("?")[0]
