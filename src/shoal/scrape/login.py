"""What a login is handed: a visitor who can ask for pages and send forms, one request at a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shoal.core.ask import Ask
from shoal.core.errors import InvalidInput
from shoal.core.exchange import Request, Response
from shoal.core.model import MINUTE, NOTHING, ZERO, Task
from shoal.core.urls import canonical, host_of
from shoal.scrape.page import Page

Send = Callable[[Request], Awaitable[Response]]
Say = Callable[[str, str, str], None]  # origin, name and value of a header


class LoginSession:
    """A visitor who is about to log in: what it is told stays with it, cookies above all.

    `number` tells the visitors of one worker apart, from 0; `host` is the one that it is made for.
    """

    def __init__(
        self,
        send: Send,
        say: Say,
        *,
        number: int,
        origin: str,
        gap: timedelta = ZERO,
        timeout: timedelta = MINUTE,
    ) -> None:
        self._send, self._say, self._gap, self._timeout = send, say, gap.total_seconds(), timeout
        self.number, self._origin = number, origin
        self._lock, self._next = asyncio.Lock(), 0.0

    async def get(self, url: str, *, headers: Mapping[str, str] = NOTHING) -> Page:
        """Return a page; raises FetchError, also for a status that is an error."""
        return await self._ask(Request(url=url, headers=headers, timeout=self._timeout))

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] = NOTHING,
    ) -> Page:
        """Send a form, or JSON, and return the page that follows. It is sent once, whatever happens."""
        if (form is None) == (json is None):
            raise InvalidInput("A login sends a form or JSON: session.post(url, form={'user': …})")
        ask = Ask.json(json, headers=headers) if form is None else Ask.form(form, headers=headers)
        return await self._ask(Request(url=url, headers=ask.headers, timeout=self._timeout, post=ask.post))

    @property
    def host(self) -> str:
        """The host that it is made for."""
        return host_of(self._origin)

    def header(self, name: str, value: str, *, host: str | None = None) -> None:
        """Send a header with every page of its own host from now on, or of one that is named, by https."""
        named = host if host is None or "://" in host else f"https://{host}"
        self._say(canonical(named).rstrip("/") if named else self._origin, name, value)

    async def _ask(self, request: Request) -> Page:
        async with self._lock:
            await asyncio.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + self._gap
            response = await self._send(replace(request, url=canonical(request.url)))
        return Page(response, Task(url=response.url, step="login"))


Login = Callable[[LoginSession], Awaitable[Any]]  # the user's function; False or an error: it did not work
